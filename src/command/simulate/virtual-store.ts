import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import { decide } from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import type { Store } from '../../model/store.ts'
import { ExpiringStates, MAX_KEYS } from '../../store/memory/expiring-states.ts'

/** Entries that `lua/sliding-window.lua` reads together with the newest: a tier that holds more costs a read of its own. */
const READ_TOGETHER = 8

/** Decides as the script in Redis does, by a clock that is set from outside. */
export class VirtualStore implements Pick<Store, 'decide'> {
  readonly #states = new RecordedStates()
  #nowMs = 0
  #calls = 0
  #commands = 0

  get nowMs(): number {
    return this.#nowMs
  }

  /** Lets time go by, never back. @param timeMs milliseconds since the Unix epoch; may have a fraction */
  advanceTo(timeMs: number): void {
    this.#nowMs = Math.max(this.#nowMs, timeMs)
  }

  /** Decisions that were requested. */
  get calls(): number {
    return this.#calls
  }

  /** Commands that Upstash would have billed for them. */
  get commands(): number {
    return this.#commands
  }

  /** Whether there were more callers than are remembered, so that some began anew. */
  get isFull(): boolean {
    return this.#states.size >= MAX_KEYS
  }

  async decide(request: DecisionRequest): Promise<Decision> {
    return this.decideNow(request)
  }

  decideNow(request: DecisionRequest): Decision {
    const nowUs = Math.round(this.#nowMs * 1_000)
    const decision = decide(request, nowUs, this.#states.at(Math.floor(nowUs / 1_000)))
    this.#calls++
    this.#commands += countCommands(request, decision, this.#states)
    return decision
  }
}

/** The states, and what the last decision did to them. */
class RecordedStates extends ExpiringStates {
  readonly readKeys: string[] = []
  /** Keys that were written, and whether each got a new time to live. */
  readonly written = new Map<string, boolean>()

  override at(nowMs: number): this {
    super.at(nowMs)
    this.readKeys.length = 0
    this.written.clear()
    return this
  }

  override read(key: string): unknown {
    this.readKeys.push(key)
    return super.read(key)
  }

  override write(key: string, state: unknown, ttlMs?: number): void {
    this.written.set(key, ttlMs !== undefined)
    super.write(key, state, ttlMs)
  }
}

/**
 * Commands that Upstash bills for a decision, as `test/command/simulate/billed-commands.test.ts` counts them in Redis:
 * the EVALSHA, one TIME, and those inside of the script. For costs above 1, and for refusals that lead to a block, a few
 * more or less; where permits were leased, a few less than returned here.
 */
function countCommands({ rules }: DecisionRequest, { usage, granted }: Decision, states: RecordedStates): number {
  let commands = 2
  for (const [index, rule] of rules.entries()) {
    if (!states.readKeys.includes(rule.key)) continue
    const isWritten = states.written.has(rule.key)
    const isCharged = isWritten && granted > 0
    const charged = isCharged ? rule.cost * granted : 0
    const tiers = (usage[index] ?? []).map(({ remaining, resetMs }, at) => {
      const { limit = 0, windowMs = 0 } = rule.tiers[at] ?? {}
      return { used: limit - remaining - charged, sinceFirstMs: windowMs - resetMs }
    })
    commands += 1 + countTierReads(rule, tiers)
    if (isCharged) commands += rule.algorithm === 'sorted-set' ? 3 : 1
    if (isCharged && rule.algorithm === 'sliding-window' && states.written.get(rule.key)) commands++
    // A refusal that counts towards a block: an entry and its time to live, or both in one.
    if (isWritten && !isCharged) commands += ALGORITHMS[rule.algorithm].isLog ? 2 : 1
  }
  return commands
}

interface UsedTier {
  /** Units, before the charge. */
  readonly used: number
  /** How long ago the first of them was admitted. */
  readonly sinceFirstMs: number
}

/** Reads beside the first one of each state. */
function countTierReads({ algorithm, cost }: StoreCharge, tiers: readonly UsedTier[]): number {
  if (algorithm === 'sorted-set') return tiers.filter(({ used }) => used > 0).length
  if (algorithm !== 'sliding-window') return 0
  // Tiers that begin with the same entry read it together.
  const busy = tiers.filter(({ used }) => used >= READ_TOGETHER * cost)
  return new Set(busy.map(({ sinceFirstMs }) => sinceFirstMs)).size
}
