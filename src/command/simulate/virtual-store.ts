/** A store in virtual time that counts the calls and commands a real one would bill. */
import { Engine } from '../../core/engine/engine.ts'
import { type LeaseSize, withLeases } from '../../core/engine/leases/with-leases.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../core/model/charge.ts'
import type { AlgorithmName } from '../../core/model/limits.ts'
import { ExpiringStates, MAX_KEYS } from '../../core/store/memory/expiring-states.ts'
import { MemoryStore } from '../../core/store/memory/memory-store.ts'

/** `lua/sliding-window.lua` reads so many entries together with the newest: a limit that holds more costs another read. */
const READ_TOGETHER = 8

/** @param leases of the one isolate that remembers refusals and leases permits; undefined: each request makes a call */
export function createVirtualEngine(store: VirtualStore, leases: LeaseSize | 'off' | undefined): Engine {
  const now = () => Math.floor(store.nowMs)
  return new Engine({
    store,
    fallback: store,
    now,
    log() {},
    storeTimeoutMs: Number.POSITIVE_INFINITY,
    leases: leases === undefined || leases === 'off' ? undefined : withLeases(leases),
    localShare: 1,
    repeats: leases === undefined ? 'none' : 'certain',
    hasBreaker: false,
  })
}

/** Decides as the script in Redis does, by a clock that is set from outside. */
export class VirtualStore extends MemoryStore {
  /** Milliseconds since the Unix epoch; may have a fraction. */
  nowMs = 0
  calls = 0
  commands = 0
  declare protected readonly states: RecordedStates

  constructor() {
    super(() => this.nowMs, new RecordedStates())
  }

  advanceTo(timeMs: number): void {
    this.nowMs = Math.max(this.nowMs, timeMs)
  }

  /** True if the counts of some callers may have been evicted. */
  get isFull(): boolean {
    return this.size >= MAX_KEYS
  }

  override decideNow(request: DecisionRequest): Decision {
    const decision = super.decideNow(request)
    this.calls++
    this.commands += countCommands(request, decision, this.states.touched)
    return decision
  }
}

class RecordedStates extends ExpiringStates {
  /** Effects of the last decision on each key; a renewed one was written with a new time to live. */
  readonly touched = new Map<string, 'read' | 'written' | 'renewed'>()

  override advanceTo(nowMs: number): this {
    super.advanceTo(nowMs)
    this.touched.clear()
    return this
  }

  override read(key: string): unknown {
    this.touched.set(key, 'read')
    return super.read(key)
  }

  override write(key: string, state: unknown, ttlMs?: number): void {
    this.touched.set(key, ttlMs === undefined ? 'written' : 'renewed')
    super.write(key, state, ttlMs)
  }
}

/**
 * Counts the commands that Upstash bills for a decision, as `test/command/simulate/billed-commands.test.ts` counts them in Redis:
 * the EVALSHA, one TIME, and those inside of the script. For costs above 1, and for refusals that lead to a penalty, a few
 * more or less; where permits were leased, a few less than returned here.
 */
function countCommands(
  { charges }: DecisionRequest,
  { usage, granted }: Decision,
  touched: RecordedStates['touched'],
): number {
  let commands = 2
  for (const [index, charge] of charges.entries()) {
    const touch = touched.get(charge.key)
    if (touch === undefined) continue
    const isWritten = touch !== 'read'
    const isCharged = isWritten && granted > 0
    const charged = isCharged ? charge.cost * granted : 0
    const limits = (usage[index] ?? []).map(({ remaining, resetMs }, at) => {
      const { limit = 0, windowMs = 0 } = charge.limits[at] ?? {}
      return { used: limit - remaining - charged, sinceFirstMs: windowMs - resetMs }
    })
    const bill = BILLS[charge.algorithm]
    commands += 1 + bill.countReads(limits, charge)
    if (isCharged) commands += bill.charge + (touch === 'renewed' ? bill.renewal : 0)
    if (isWritten && !isCharged) commands += bill.refusal
  }
  return commands
}

/** Units used before the charge, and the age of the first. */
interface UsedLimit {
  readonly used: number
  readonly sinceFirstMs: number
}

/** Commands of a charge, besides the first that reads its key. */
interface Bill {
  /** Further reads. */
  countReads(limits: readonly UsedLimit[], charge: StoreCharge): number
  readonly charge: number
  /** A new time to live, if that is a command of its own. */
  readonly renewal: number
  /** A refusal that counts towards a penalty: an entry and its time to live, or both in one. */
  readonly refusal: number
}

const PLAIN: Bill = { countReads: () => 0, charge: 1, renewal: 0, refusal: 1 }

const BILLS: Readonly<Record<AlgorithmName, Bill>> = {
  'sliding-window': {
    // Limits that begin with the same entry read it together.
    countReads: (limits, { cost }) => {
      const busy = limits.filter(({ used }) => used >= READ_TOGETHER * cost)
      return new Set(busy.map(({ sinceFirstMs }) => sinceFirstMs)).size
    },
    charge: 1,
    renewal: 1,
    refusal: 2,
  },
  'token-bucket': PLAIN,
  'fixed-window': PLAIN,
  quota: PLAIN,
  'sorted-set': {
    countReads: (limits) => limits.filter(({ used }) => used > 0).length,
    charge: 3,
    renewal: 0,
    refusal: 2,
  },
  concurrency: PLAIN,
}
