/**
 * The limits that a server has reported, held so that it never counts more than it allows, however long calls are on
 * their way.
 *
 * The server counts a call at some moment between its sending and its answer. So a call holds a unit from before it is
 * sent until a whole window after its answer. Of all calls that a window of the server's holds, wherever that begins,
 * the one that was let through last found all the others still held: they are no more than the limit. Such units are
 * slots of a limit on concurrency whose deadline is the window, and which are renewed by the answer, never given back.
 */

import type { Decision, Rule } from '../model/charge.ts'
import type { Tier } from '../model/limits.ts'
import type { Store } from '../model/store.ts'
import { randomSlot } from '../runtime/random.ts'
import { ExpiringStates } from '../store/memory/expiring-states.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import type { Clock } from './clock.ts'
import { FORGOTTEN_AFTER_MS, KnownTiers } from './known-tiers.ts'
import { formatNote, type LearnedTier, type Notes, parseNote } from './notes.ts'
import type { ServerLimit } from './server-limit.ts'

/** What rules of learned limits name. */
export const LEARNED_ALGORITHMS = ['concurrency', 'sliding-window'] as const

/** Above this, a limit is a log of admissions: a slot takes more memory, and time among many. */
const MOST_SLOTS = 2_000

/** Clocks of two machines run this much apart at most: NTP slews by 1 in 2,000. */
const CLOCK_RATE_SHARE = 1 / 1_000

/** A log counts a call from its admission, so its window is longer by what calls may be late. */
const LATENESS_SHARE = 1 / 50
const LEAST_LATENESS_MS = 1_000

/**
 * Keys that the memory of one identity holds: several times the limits known of a server. One that names new limits in
 * each response pushes out its own counts, and nobody else's.
 */
const MAX_LOCAL_KEYS = 100

/** How long others wait at most, once the first call of all has been answered. */
const TRIAL_MS = 500

/** How long it takes at most until a process hears what another one was told. */
const HEARSAY_MS = 1_000

export interface LearnedLimitsOptions {
  /** Where calls of all processes are counted; undefined: in this process's memory. */
  readonly store: Store | undefined
  /** Left out, what is learned stays in this process. */
  readonly notes: Notes | undefined
  /** The key of the state that goes by a name. */
  readonly keyOf: (name: string, letter: 'c' | 'w' | 'n') => string
  /** See `OutboundOptions.countedWithinMs`. */
  readonly countedWithinMs: number
  /** See `OutboundOptions.maxPauseMs`. */
  readonly maxPauseMs: number
  readonly clock: Clock
}

/** Units held for one call. */
export interface Hold {
  /** False if it may have lapsed: this process stood still, or the store took too long. */
  isCurrent(): boolean
  /** The call was not sent after all. */
  release(): Promise<void>
  /** The call is sent now. */
  sent(): void
  /** @param answer undefined if there was none */
  ended(answer: Heard | undefined): Promise<void>
}

/** What is learned from of a response. */
interface Heard {
  readonly isRefusal: boolean
  readonly limits: readonly ServerLimit[]
}

/** Why a call may go without a unit of some limits. */
interface HoldTerms {
  /** Nothing is known yet. */
  readonly isTrial?: boolean
  /** Limits that had kept calls back for too long. */
  readonly probed?: readonly LearnedTier[]
}

/** Rules that were charged for a call, by tier. */
interface Charge {
  readonly store: Store
  readonly decision: Decision
  readonly rules: ReadonlyMap<string, Rule>
}

export class LearnedLimits {
  readonly #options: LearnedLimitsOptions
  readonly #clock: Clock
  readonly #store: Store
  /** For the time when the store gives no answer. */
  readonly #local: MemoryStore
  readonly #tiers = new KnownTiers()
  /** Neither has the server answered, nor have other processes noted anything. */
  #isUnknown = true
  /** The server last reported a limit, but not how long it holds. */
  #isVague = false
  /** By our clock. */
  #pausedUntilMs = 0
  /** What others have noted, by the clock of the store. */
  #pauseNotedUntilMs = 0
  #readAtMs: number | undefined
  /** Since when no call was let through, if one has been kept back. */
  #waitingSinceMs: number | undefined
  /** What the store's clock is ahead of ours. */
  #aheadMs = 0
  /** One response after the other, so that no two make up for the same difference. */
  #learning: Promise<void> = Promise.resolve()

  constructor(options: LearnedLimitsOptions) {
    this.#options = options
    this.#clock = options.clock
    this.#local = new MemoryStore(() => options.clock.now(), new ExpiringStates(MAX_LOCAL_KEYS))
    this.#store = options.store ?? this.#local
  }

  /** Whether too little is known to make more than one call at a time. */
  get isOnTrial(): boolean {
    return this.#isUnknown || this.#isVague
  }

  /** Whether the server is known to have any limit. */
  get hasLimits(): boolean {
    return this.#tiers.size > 0
  }

  /** Until when no call may be made, by this process's clock; a moment that has passed if there is no pause. */
  get pausedUntilMs(): number {
    return Math.max(this.#pausedUntilMs, this.#pauseNotedUntilMs - this.#aheadMs)
  }

  /** @returns what the call holds, or the milliseconds after which to ask again, at least 1 */
  async acquire(cost: number): Promise<Hold | number> {
    await this.#read()
    if (this.#isUnknown && this.#options.notes) return this.#acquireTrial(cost)
    const askedAtMs = this.#clock.now()
    const tiers = [...this.#tiers]
    const charge = await this.#charge(tiers, cost)
    if (!charge || charge.decision.granted > 0) return this.#hold(cost, charge, askedAtMs)
    this.#waitingSinceMs ??= askedAtMs
    const { maxPauseMs } = this.#options
    const waitMs = retryAfterMs(charge.decision)
    const stalled = this.#findStalled(tiers, charge)
    const probeMs = this.#waitingSinceMs + maxPauseMs - askedAtMs
    if (stalled.length === 0 || waitMs <= probeMs) return waitMs
    if (probeMs > 0) return probeMs
    const others = await this.#charge(
      tiers.filter((tier) => !stalled.includes(tier)),
      cost,
    )
    if (others?.decision.granted === 0) return retryAfterMs(others.decision)
    return this.#hold(cost, others, askedAtMs, { probed: stalled })
  }

  /** Limits that may keep calls back beyond the longest pause: by their windows, or by those that they once had. */
  #findStalled(tiers: readonly LearnedTier[], { decision, rules }: Charge): readonly LearnedTier[] {
    return tiers.filter(({ name, windowMs }, index) => {
      const heldMs = rules.get(name)?.tiers[0]?.windowMs ?? 0
      return windowMs > this.#options.maxPauseMs || (decision.usage[index]?.[0]?.retryAfterMs ?? 0) > heldMs
    })
  }

  /** Forgets all that was learned, also where others find it. */
  async forget(): Promise<void> {
    const tiers = [...this.#tiers]
    this.#tiers.clear()
    this.#isUnknown = true
    this.#isVague = false
    this.#pausedUntilMs = 0
    this.#pauseNotedUntilMs = 0
    await this.#forgetCounts(tiers)
    await this.#write()
  }

  async #charge(tiers: readonly LearnedTier[], cost: number): Promise<Charge | undefined> {
    if (tiers.length === 0) return undefined
    return this.#decide('all', 1, new Map(tiers.map((tier) => [tier.name, this.#ruleOf(tier, cost)])))
  }

  async #forgetCounts(tiers: readonly LearnedTier[]): Promise<void> {
    const { keyOf } = this.#options
    const keys = tiers.flatMap(({ name }) => [keyOf(name, 'c'), keyOf(name, 'w')])
    if (keys.length === 0) return
    await this.#local.forget(keys)
    // Without an answer, they last for their window.
    await this.#store.forget(keys).catch(() => {})
  }

  /** Lets no process call before a moment of this process's clock. */
  async pauseUntil(ms: number): Promise<void> {
    if (ms <= this.pausedUntilMs) return
    this.#pausedUntilMs = ms
    await this.#write()
  }

  /** As long as nothing is known, one process makes one call; the others wait for what it learns. */
  async #acquireTrial(cost: number): Promise<Hold | number> {
    const askedAtMs = this.#clock.now()
    const tier = { limit: 1, windowMs: TRIAL_MS }
    const rule = concurrencyRule(this.#options.keyOf('', 'c'), tier, 1)
    const charge = await this.#decide('all', 1, new Map([['', rule]]))
    if (charge.decision.granted === 0) return retryAfterMs(charge.decision)
    this.#readAtMs = undefined
    // Again, because the process before has noted what it learned before giving way.
    await this.#read()
    if (this.#isUnknown) return this.#hold(cost, charge, askedAtMs, { isTrial: true })
    await this.#release(charge)
    return this.acquire(cost)
  }

  #hold(cost: number, charge: Charge | undefined, askedAtMs: number, terms: HoldTerms = {}): Hold {
    const { isTrial = false, probed = [] } = terms
    const waitingSinceMs = this.#waitingSinceMs
    this.#waitingSinceMs = undefined
    const slots = [...(charge?.rules.values() ?? [])].filter(({ algorithm }) => algorithm === 'concurrency')
    const lastsMs = Math.min(...slots.map(({ tiers }) => tiers[0]?.windowMs ?? 0))
    let stopKeeping = () => {}
    let stopCounting = () => {}
    let isCounted = false
    let heldFromMs = askedAtMs
    const renew = async () => {
      const fromMs = this.#clock.now()
      if (await this.#renew(charge)) heldFromMs = fromMs
    }
    const keep = () => {
      stopKeeping = this.#clock.after(lastsMs / 3, () => {
        void renew()
        keep()
      })
    }
    if (slots.length > 0) keep()
    const stop = () => {
      stopKeeping()
      stopCounting()
    }
    return {
      // If two processes make the first call, no harm is done.
      isCurrent: () => isTrial || this.#clock.now() < heldFromMs + lastsMs,
      release: async () => {
        stop()
        this.#waitingSinceMs ??= waitingSinceMs
        if (charge) await this.#release(charge)
      },
      sent: () => {
        const { countedWithinMs } = this.#options
        if (isTrial || slots.length === 0 || countedWithinMs === Number.POSITIVE_INFINITY) return
        stopCounting = this.#clock.after(countedWithinMs, () => {
          isCounted = true
          stopKeeping()
          void renew()
        })
      },
      ended: async (answer) => {
        const limits = answer?.limits
        if (answer && !answer.isRefusal) await this.#forgetCounts(probed)
        const isNews = limits?.map((limit) => this.#tiers.hear(limit, cost, this.#clock.now())).some(Boolean)
        const counted = isTrial || isCounted ? undefined : renew()
        if (limits) {
          const learned = isTrial ? undefined : charge
          this.#learning = this.#learning.then(() => this.#learn(limits, cost, learned, isNews === true))
        }
        await Promise.all([counted, limits && this.#learning])
        if (isTrial && charge) await this.#release(charge)
        stop()
      },
    }
  }

  /** Charges what a response shows to have been spent, and notes what is new. */
  async #learn(
    limits: readonly ServerLimit[],
    cost: number,
    charge: Charge | undefined,
    isNews: boolean,
  ): Promise<void> {
    for (const limit of limits) {
      const tier = this.#tiers.get(limit.name)
      if (!tier) continue
      // It was sent before this limit was known.
      if (!charge?.rules.has(tier.name)) await this.#chargeLate(tier, cost, tier.windowMs)
      await this.#makeUp(tier, limit, charge)
    }
    const isFirst = this.#isUnknown
    this.#isUnknown = false
    this.#isVague = limits.some(({ name }) => !this.#tiers.get(name))
    if (isNews || isFirst) await this.#write()
  }

  /** If the server has less left than is thought here, others spend from it too: the difference is held until its reset. */
  async #makeUp(tier: LearnedTier, { remaining, resetMs }: ServerLimit, charge: Charge | undefined): Promise<void> {
    if (remaining === undefined) return
    const index = [...(charge?.rules.keys() ?? [])].indexOf(tier.name)
    const leftBefore = charge?.decision.usage[index]?.[0]?.remaining ?? tier.limit
    if (remaining >= leftBefore) return
    // What is thought now: all that the server had counted by then was held before, so with no others it has more left.
    const { decision } = await this.#decide('peek', 1, new Map([[tier.name, this.#ruleOf(tier, 1)]]))
    const left = decision.usage[0]?.[0]?.remaining ?? 0
    const longestMs = Math.max(tier.windowMs, this.#options.maxPauseMs)
    const lastsMs = Math.min(resetMs ?? tier.windowMs, longestMs)
    if (remaining < left) await this.#chargeLate(tier, left - remaining, lastsMs)
  }

  async #chargeLate(tier: LearnedTier, units: number, lastsMs: number): Promise<void> {
    if (lastsMs < 1) return
    await this.#decide('partial', units, new Map([[tier.name, this.#ruleOf(tier, 1, lastsMs)]]))
  }

  /** @param lastsMs how long the units are held from their last renewal */
  #ruleOf({ name, limit, windowMs }: LearnedTier, cost: number, lastsMs = windowMs): Rule {
    const { keyOf } = this.#options
    const units = Math.min(cost, limit)
    if (limit <= MOST_SLOTS) {
      const heldMs = Math.ceil(lastsMs * (1 + CLOCK_RATE_SHARE)) + 1
      return concurrencyRule(keyOf(name, 'c'), { limit, windowMs: heldMs }, units)
    }
    const loggedMs = windowMs + Math.ceil(Math.max(LEAST_LATENESS_MS, windowMs * LATENESS_SHARE))
    return {
      key: keyOf(name, 'w'),
      algorithm: 'sliding-window',
      tiers: [{ limit, windowMs: loggedMs }],
      cost: units,
      enforced: true,
      reserved: 0,
    }
  }

  async #decide(mode: 'all' | 'partial' | 'peek', permits: number, rules: Charge['rules']): Promise<Charge> {
    const request = { mode, permits, rules: [...rules.values()] }
    try {
      const decision = await this.#store.decide(request)
      this.#aheadMs = decision.nowMs - this.#clock.now()
      return { store: this.#store, decision, rules }
    } catch {
      // Without the store, each process holds the limits by itself, and learns of those that it exceeds by a 429.
      return { store: this.#local, decision: await this.#local.decide(request), rules }
    }
  }

  /**
   * Holds its slots for whole windows from now on, of the length that is known by now.
   * @returns false if the store gave no answer: they last until their old deadline
   */
  async #renew(charge: Charge | undefined): Promise<boolean> {
    const rules = [...(charge?.rules ?? [])]
      .filter(([, { algorithm }]) => algorithm === 'concurrency')
      .map(([name, rule]) => {
        const tier = this.#tiers.get(name)
        return tier ? { ...rule, tiers: this.#ruleOf(tier, 1).tiers } : rule
      })
    if (!charge || rules.length === 0) return true
    try {
      await charge.store.renew(rules)
      return true
    } catch {
      return false
    }
  }

  async #release({ store, rules }: Charge): Promise<void> {
    const slots = [...rules.values()].filter(({ algorithm }) => algorithm === 'concurrency')
    if (slots.length > 0) await store.release(slots).catch(() => {})
  }

  /** What others have learned: waited for the first time, and heard of in passing from then on. */
  async #read(): Promise<void> {
    const { notes, keyOf } = this.#options
    const isFirst = this.#readAtMs === undefined
    if (!notes || this.#clock.now() < (this.#readAtMs ?? 0) + HEARSAY_MS) return
    this.#readAtMs = this.#clock.now()
    const reading = this.#hear(notes, keyOf('', 'n'))
    if (isFirst) await reading
  }

  async #hear(notes: Notes, key: string): Promise<void> {
    try {
      this.#adopt(await notes.read(key))
    } catch {
      // Without an answer, this process learns by itself.
    }
  }

  #adopt(text: unknown): void {
    const note = parseNote(text)
    if (!note) return
    this.#isUnknown = false
    this.#pauseNotedUntilMs = Math.max(this.#pauseNotedUntilMs, note.pausedUntilMs)
    for (const tier of note.tiers) this.#tiers.adopt(tier, this.#clock.now())
  }

  async #write(): Promise<void> {
    const { notes, keyOf } = this.#options
    if (!notes) return
    const tiers = [...this.#tiers].map(({ name, limit, windowMs }) => ({ name, limit, windowMs }))
    const { pausedUntilMs } = this
    const pauseMs = Math.max(0, pausedUntilMs - this.#clock.now())
    const ttlMs = Math.max(FORGOTTEN_AFTER_MS, ...tiers.map(({ windowMs }) => 2 * windowMs)) + Math.ceil(pauseMs)
    const note = { tiers, pausedUntilMs: pausedUntilMs + this.#aheadMs }
    try {
      await notes.write(keyOf('', 'n'), formatNote(note), ttlMs)
    } catch {
      // Other processes that miss it learn by themselves.
    }
  }
}

function concurrencyRule(key: string, tier: Tier, cost: number): Rule {
  return { key, algorithm: 'concurrency', tiers: [tier], cost, enforced: true, reserved: 0, slot: randomSlot() }
}

function retryAfterMs({ usage }: Decision): number {
  return Math.max(1, ...usage.flat().map((tier) => tier.retryAfterMs))
}
