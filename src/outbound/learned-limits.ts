/**
 * The limits that a server has reported, held so that it never counts more than it allows, however long calls are on
 * their way.
 *
 * The server counts a call at some moment between its sending and its answer. So a call holds a unit from before it is
 * sent until a whole window after its answer. Of all calls that a window of the server's holds, wherever that begins,
 * the one that was admitted last found all the others still held: they are no more than the limit. Such units are slots
 * of a limit on concurrency whose deadline is the window, and which are renewed by the answer, never released.
 */

import type { Decision, StoreCharge } from '../model/charge.ts'
import type { Store } from '../model/store.ts'
import { randomSlot } from '../runtime/random.ts'
import { ExpiringStates } from '../store/memory/expiring-states.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import type { Clock } from './clock.ts'
import { FORGOTTEN_AFTER_MS, formatNote, type KnownLimit, KnownLimits, parseNote } from './known-limits.ts'
import type { Notes, OutboundOptions } from './options.ts'
import type { ServerLimit } from './server-limit.ts'

/** Algorithms that rules of learned limits name. */
export const LEARNED_ALGORITHMS = ['concurrency', 'sliding-window'] as const

/** Above this, a limit is a log of admissions: a slot takes more memory, and time among many. */
const MAX_SLOTS = 2_000

/** Clocks of two machines run this much apart at most: NTP slews by 1 in 2,000. */
const CLOCK_RATE_SHARE = 1 / 1_000

/** A log counts a call from its admission, so its window is longer by what calls may be late. */
const LATENESS_SHARE = 1 / 50
const MIN_LATENESS_MS = 1_000

/**
 * Keys that the memory of one identity holds: several times the limits known of a server. One that names new limits in
 * each response pushes out its own counts, and nobody else's.
 */
const MAX_LOCAL_KEYS = 100

/** How long others wait at most, once the first call of all has been answered. */
const TRIAL_MS = 500

/** How long a process believes what it last read of the shared note. */
const SHARED_NOTE_TTL_MS = 1_000

export interface LearnedLimitsOptions
  extends Pick<Required<OutboundOptions>, 'countedWithinMs' | 'maxPauseMs' | 'clock'> {
  /** Where calls of all processes are counted; undefined: in this process's memory. */
  readonly store: Store | undefined
  /** Undefined: what is learned stays in this process. */
  readonly notes: Notes | undefined
  /** Makes the key of the state that goes by a name. */
  readonly toKey: (name: string, letter: 'c' | 'w' | 'n') => string
}

/** Units held for one call. */
export interface CallReservation {
  /** False if it may have expired: this process stood still, or the store took too long. */
  isCurrent(): boolean
  /** The call was not sent after all. */
  release(): Promise<void>
  /** The call is sent now. */
  sent(): void
  /** @param answer undefined if there was none */
  ended(answer: { readonly isRefusal: boolean; readonly limits: readonly ServerLimit[] } | undefined): Promise<void>
}

/** The charge of a call for one limit. */
interface LimitRule extends StoreCharge {
  readonly name: string
}

interface Charged {
  readonly store: Store
  readonly decision: Decision
  readonly rules: readonly LimitRule[]
}

export class LearnedLimits {
  readonly #options: LearnedLimitsOptions
  readonly #clock: Clock
  readonly #store: Store
  /** For the time when the store gives no answer. */
  readonly #local: MemoryStore
  readonly #limits = new KnownLimits()
  /** Neither has the server answered, nor have other processes noted anything. */
  #isUnknown = true
  /** The server last reported a limit, but not how long it holds. */
  #isVague = false
  /** By the clock of the store. */
  #pausedUntilMs = 0
  /** How far the store's clock is ahead of ours. */
  #aheadMs = 0
  /** The shared note, as it was last read or written. */
  #note: unknown
  #readAtMs: number | undefined
  /** Since when no call was admitted, if one has been kept back. */
  #waitingSinceMs: number | undefined
  /** One response after the other, so that no two make up for the same difference. */
  #learning: Promise<void> = Promise.resolve()

  constructor(options: LearnedLimitsOptions) {
    this.#options = options
    this.#clock = options.clock
    this.#local = new MemoryStore(() => options.clock.now(), new ExpiringStates(MAX_LOCAL_KEYS))
    this.#store = options.store ?? this.#local
  }

  /** Too little is known to make more than one call at a time. */
  get isOnTrial(): boolean {
    return this.#isUnknown || this.#isVague
  }

  /** The server is known to have limits. */
  get hasLimits(): boolean {
    return this.#limits.size > 0
  }

  /** Until when no call of any process may be made, by this process's clock; in the past if there is no pause. */
  get pausedUntilMs(): number {
    return this.#pausedUntilMs - this.#aheadMs
  }

  /** Lets no process call before a moment of this process's clock. */
  async pauseUntil(ms: number): Promise<void> {
    if (ms <= this.pausedUntilMs) return
    this.#pausedUntilMs = ms + this.#aheadMs
    await this.#writeNote()
  }

  /** Forgets all that was learned, also where others find it. */
  async forget(): Promise<void> {
    const limits = [...this.#limits.values()]
    this.#limits.clear()
    this.#isUnknown = true
    this.#isVague = false
    this.#pausedUntilMs = 0
    await this.#forgetCounts(limits)
    await this.#writeNote()
  }

  /** @returns what the call holds, or the milliseconds after which to ask again, at least 1 */
  async acquire(cost: number): Promise<CallReservation | number> {
    await this.#readNote()
    if (this.#isUnknown && this.#options.notes) return this.#acquireTrial(cost)
    const fromMs = this.#clock.now()
    const limits = [...this.#limits.values()]
    const charged = await this.#charge(limits, cost)
    if (!charged || charged.decision.granted > 0) return this.#reserve(cost, charged, fromMs)
    this.#waitingSinceMs ??= fromMs
    const { maxPauseMs } = this.#options
    const waitMs = retryAfterMs(charged.decision)
    const probeMs = this.#waitingSinceMs + maxPauseMs - fromMs
    // Limits that may keep calls back beyond the longest pause: by their windows, or by those that they once had.
    const stalled = limits.filter(({ windowMs }, index) => {
      const heldMs = charged.rules[index]?.tiers[0]?.windowMs ?? 0
      return windowMs > maxPauseMs || (charged.decision.usage[index]?.[0]?.retryAfterMs ?? 0) > heldMs
    })
    if (stalled.length === 0 || waitMs <= probeMs) return waitMs
    if (probeMs > 0) return probeMs
    const flowing = limits.filter((limit) => !stalled.includes(limit))
    const others = await this.#charge(flowing, cost)
    if (others?.decision.granted === 0) return retryAfterMs(others.decision)
    return this.#reserve(cost, others, fromMs, stalled)
  }

  /** Lets one process make one call while nothing is known; the others wait for what it learns. */
  async #acquireTrial(cost: number): Promise<CallReservation | number> {
    const tier = { limit: 1, windowMs: TRIAL_MS }
    const trial = await this.#decide('all', 1, [{ ...this.#toRule({ ...tier, name: '' }, 1), tiers: [tier] }])
    if (trial.decision.granted === 0) return retryAfterMs(trial.decision)
    this.#readAtMs = undefined
    // Again, because the process before has noted what it learned before giving way.
    await this.#readNote()
    if (!this.#isUnknown) {
      await this.#release(trial)
      return this.acquire(cost)
    }
    const reservation = this.#reserve(cost, undefined, this.#clock.now())
    const stop = repeat(this.#clock, TRIAL_MS / 3, () => this.#renew(trial))
    const release = () => {
      stop()
      return this.#release(trial)
    }
    return { ...reservation, release, ended: (answer) => reservation.ended(answer).then(release) }
  }

  /** @param probed limits that had kept calls back for too long, so that this one goes without their units */
  #reserve(
    cost: number,
    charged: Charged | undefined,
    fromMs: number,
    probed: readonly KnownLimit[] = [],
  ): CallReservation {
    const waitingSinceMs = this.#waitingSinceMs
    this.#waitingSinceMs = undefined
    const slots = charged?.rules.filter(hasSlot) ?? []
    const lastsMs = Math.min(...slots.map(({ tiers }) => tiers[0]?.windowMs ?? 0))
    let heldFromMs = fromMs
    let isCounted = false
    const renew = async () => {
      const nowMs = this.#clock.now()
      if (charged && (await this.#renew(charged))) heldFromMs = nowMs
    }
    const stopKeeping = slots.length > 0 ? repeat(this.#clock, lastsMs / 3, renew) : () => {}
    let stopCounting = () => {}
    const stop = () => {
      stopKeeping()
      stopCounting()
    }
    return {
      isCurrent: () => this.#clock.now() < heldFromMs + lastsMs,
      release: async () => {
        stop()
        this.#waitingSinceMs ??= waitingSinceMs
        if (charged) await this.#release(charged)
      },
      sent: () => {
        const { countedWithinMs } = this.#options
        if (slots.length === 0 || countedWithinMs === Number.POSITIVE_INFINITY) return
        stopCounting = this.#clock.after(countedWithinMs, () => {
          isCounted = true
          stopKeeping()
          void renew()
        })
      },
      ended: async (answer) => {
        if (answer && !answer.isRefusal) await this.#forgetCounts(probed)
        const limits = answer?.limits
        const nowMs = this.#clock.now()
        const isNews = limits?.map((limit) => this.#limits.update(limit, cost, nowMs)).includes(true) ?? false
        const renewed = isCounted ? undefined : renew()
        if (limits) this.#learning = this.#learning.then(() => this.#learn(limits, cost, charged, isNews))
        await Promise.all([renewed, limits && this.#learning])
        stop()
      },
    }
  }

  /** Charges what a response shows to have been used, and notes what is new. */
  async #learn(
    reported: readonly ServerLimit[],
    cost: number,
    charged: Charged | undefined,
    isNews: boolean,
  ): Promise<void> {
    for (const report of reported) {
      const limit = this.#limits.get(report.name)
      if (!limit) continue
      const index = charged?.rules.findIndex(({ name }) => name === limit.name) ?? -1
      // It was sent before this limit was known.
      if (index < 0) await this.#chargeLate(limit, cost, limit.windowMs)
      const before = charged?.decision.usage[index]?.[0]?.remaining ?? limit.limit
      await this.#makeUp(limit, report, before)
    }
    const isFirst = this.#isUnknown
    this.#isUnknown = false
    this.#isVague = reported.some(({ name }) => !this.#limits.get(name))
    if (isNews || isFirst) await this.#writeNote()
  }

  /**
   * If the server has less left than is thought here, others use it too: the difference is held until its reset.
   * @param before units that were left here when the call was charged
   */
  async #makeUp(limit: KnownLimit, { remaining, resetMs }: ServerLimit, before: number): Promise<void> {
    if (remaining === undefined || remaining >= before) return
    // All that the server had counted by then was held here before, so with no others the server has more left.
    const { decision } = await this.#decide('peek', 1, [this.#toRule(limit, 1)])
    const left = decision.usage[0]?.[0]?.remaining ?? 0
    const lastsMs = Math.min(resetMs ?? limit.windowMs, Math.max(limit.windowMs, this.#options.maxPauseMs))
    if (remaining < left) await this.#chargeLate(limit, left - remaining, lastsMs)
  }

  async #chargeLate(limit: KnownLimit, units: number, lastsMs: number): Promise<void> {
    if (lastsMs >= 1) await this.#decide('partial', units, [this.#toRule(limit, 1, lastsMs)])
  }

  async #charge(limits: readonly KnownLimit[], cost: number): Promise<Charged | undefined> {
    if (limits.length === 0) return undefined
    const rules = limits.map((limit) => this.#toRule(limit, cost))
    return this.#decide('all', 1, rules)
  }

  async #decide(mode: 'all' | 'partial' | 'peek', permits: number, rules: readonly LimitRule[]): Promise<Charged> {
    const request = { mode, permits, rules }
    try {
      const decision = await this.#store.decide(request)
      this.#aheadMs = decision.nowMs - this.#clock.now()
      return { store: this.#store, decision, rules }
    } catch {
      // Without the store, each process holds the limits by itself, and learns of those that it exceeds by a 429.
      return { store: this.#local, decision: await this.#local.decide(request), rules }
    }
  }

  /** @param lastsMs how long the units are held from their last renewal */
  #toRule({ name, limit, windowMs }: KnownLimit, cost: number, lastsMs = windowMs): LimitRule {
    const { toKey } = this.#options
    const rule = { name, cost: Math.min(cost, limit), enforced: true, reserved: 0 }
    if (limit <= MAX_SLOTS) {
      const tiers = [{ limit, windowMs: Math.ceil(lastsMs * (1 + CLOCK_RATE_SHARE)) + 1 }]
      return { ...rule, key: toKey(name, 'c'), algorithm: 'concurrency', tiers, slot: randomSlot() }
    }
    const tiers = [{ limit, windowMs: windowMs + Math.ceil(Math.max(MIN_LATENESS_MS, windowMs * LATENESS_SHARE)) }]
    return { ...rule, key: toKey(name, 'w'), algorithm: 'sliding-window', tiers }
  }

  /**
   * Holds slots for whole windows from now on, of the length that is known by now.
   * @returns false if the store gave no answer: they last until their old deadline
   */
  async #renew({ store, rules }: Charged): Promise<boolean> {
    const slots = rules.filter(hasSlot).map((rule) => {
      const limit = this.#limits.get(rule.name)
      return limit ? { ...rule, tiers: this.#toRule(limit, 1).tiers } : rule
    })
    if (slots.length === 0) return true
    return store.renew(slots).then(
      () => true,
      () => false,
    )
  }

  async #release({ store, rules }: Charged): Promise<void> {
    const slots = rules.filter(hasSlot)
    if (slots.length > 0) await store.release(slots).catch(() => {})
  }

  async #forgetCounts(limits: readonly KnownLimit[]): Promise<void> {
    const { toKey } = this.#options
    const keys = limits.flatMap(({ name }) => [toKey(name, 'c'), toKey(name, 'w')])
    if (keys.length === 0) return
    await this.#local.forget(keys)
    // Without an answer, they last for their window.
    await this.#store.forget(keys).catch(() => {})
  }

  /** Reads what others have learned: waits for it the first time, and goes on meanwhile from then on. */
  async #readNote(): Promise<void> {
    const { notes, toKey } = this.#options
    const isFirst = this.#readAtMs === undefined
    if (!notes || this.#clock.now() < (this.#readAtMs ?? 0) + SHARED_NOTE_TTL_MS) return
    this.#readAtMs = this.#clock.now()
    // Without an answer, this process learns by itself.
    const reading = this.#mergeNote(notes, toKey('', 'n')).catch(() => {})
    if (isFirst) await reading
  }

  /** The last note holds the server's last word, so it replaces what is known, unless this process knows the note. */
  async #mergeNote(notes: Notes, key: string): Promise<void> {
    const before = this.#note
    const text = await notes.read(key)
    const note = parseNote(text)
    if (!note || text === before || this.#note !== before) return
    this.#note = text
    this.#isUnknown = false
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, note.pausedUntilMs)
    for (const limit of note.tiers) this.#limits.put(limit, this.#clock.now())
  }

  async #writeNote(): Promise<void> {
    const { notes, toKey } = this.#options
    if (!notes) return
    const limits = [...this.#limits.values()]
    const pauseMs = Math.max(0, this.pausedUntilMs - this.#clock.now())
    const ttlMs = Math.max(FORGOTTEN_AFTER_MS, ...limits.map(({ windowMs }) => 2 * windowMs)) + Math.ceil(pauseMs)
    const text = formatNote({ tiers: limits, pausedUntilMs: this.#pausedUntilMs })
    const before = this.#note
    this.#note = text
    try {
      await notes.write(toKey('', 'n'), text, ttlMs)
    } catch {
      // Other processes that miss it learn by themselves. What stands there still is no news here.
      this.#note = before
    }
  }
}

function hasSlot({ algorithm }: StoreCharge): boolean {
  return algorithm === 'concurrency'
}

/** @returns a function that ends it */
function repeat(clock: Clock, everyMs: number, work: () => Promise<unknown>): () => void {
  const again = () => {
    void work()
    stop = clock.after(everyMs, again)
  }
  let stop = clock.after(everyMs, again)
  return () => stop()
}

function retryAfterMs({ usage }: Decision): number {
  return Math.max(1, ...usage.flat().map((tier) => tier.retryAfterMs))
}
