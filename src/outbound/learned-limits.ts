/**
 * The limits that a server has reported, held so that it never counts more than it allows, however long calls travel.
 *
 * The server counts a call at some moment between its sending and its answer. So a call holds a unit from before it is
 * sent until a whole window after its answer. Of all calls in one of the server's windows, wherever that begins, the
 * one that was admitted last found all the others still held: they are no more than the limit. Such units are slots of
 * a concurrency limit whose deadline is the window. The answer renews them, and nothing releases them.
 */
import type { Decision, StoreCharge } from '../core/model/charge.ts'
import type { Store } from '../core/model/store.ts'
import { drawNumber } from '../core/runtime/random.ts'
import { ExpiringStates } from '../core/store/memory/expiring-states.ts'
import { MemoryStore } from '../core/store/memory/memory-store.ts'
import type { Clock } from './clock.ts'
import { formatNote, type KnownLimit, KnownLimits, MAX_AGE_MS, parseNote } from './known-limits.ts'
import type { Notes, ResolvedOptions } from './options.ts'
import type { Answer, ServerLimit } from './server-limit.ts'

export const LEARNED_ALGORITHMS = ['concurrency', 'sliding-window'] as const

/** A larger limit is a log of admissions: a slot takes more memory, and time among many. */
const MAX_SLOTS = 2_000
/** Clocks of two machines drift apart by this share at most: NTP slews by 1 in 2,000. */
const CLOCK_RATE_SHARE = 1 / 1_000
/** A log counts a call from its admission, so its window is longer by the lateness that calls may have. */
const LATENESS_SHARE = 1 / 50
const MIN_LATENESS_MS = 1_000
/** Keys in memory per identity: a server that reports new limits in each response evicts its own counts only. */
const MAX_LOCAL_KEYS = 100

/**
 * While no limit is known, one process makes one call; the others wait no longer than this after its answer. No server
 * can report a limit of this name.
 */
const TRIAL: KnownLimit = { name: '\n', limit: 1, windowMs: 500 }

/** A process reads the shared note again after this. */
const SHARED_NOTE_TTL_MS = 1_000

export interface LearnedLimitsOptions extends Pick<ResolvedOptions, 'countedWithinMs' | 'maxPauseMs' | 'clock'> {
  /** Undefined: nothing is shared with other processes. */
  readonly store: Store | undefined
  readonly notes: Notes | undefined
  readonly toKey: (name: string, letter: 'c' | 'w' | 'n') => string
}

/** Units held for one call. */
export interface CallReservation {
  /** False if it may have expired: this process stood still, or the store took too long. */
  isCurrent(): boolean
  release(): Promise<void>
  onSent(): void
  /** @param answer undefined if there was none */
  onEnded(answer: Answer | undefined): Promise<void>
}

interface LimitCharge extends StoreCharge {
  readonly name: string
}

interface Charged {
  readonly store: Store
  readonly decision: Decision
  readonly charges: readonly LimitCharge[]
  readonly slots: readonly LimitCharge[]
}

export class LearnedLimits {
  readonly #options: LearnedLimitsOptions
  readonly #clock: Clock
  readonly #store: Store
  /** Decides while the store gives no answer. */
  readonly #local: MemoryStore
  readonly #limits = new KnownLimits()
  /** `partial`: the server last reported a limit without a window or a reset. */
  #knowledge: 'none' | 'partial' | 'complete' = 'none'
  /** A time of the store's clock, which is ahead of this process's by `#aheadMs`. */
  #pausedUntilMs = 0
  /** Undefined until the store has answered. */
  #aheadMs: number | undefined
  /** Text of the shared note, as it was last read or written. */
  #note: unknown
  #readAtMs: number | undefined
  /** Since then, calls have waited for limits and none was admitted. */
  #waitingSinceMs: number | undefined
  /** Responses are processed one by one, so that no two make up for the same difference. */
  #learning: Promise<void> = Promise.resolve()

  constructor(options: LearnedLimitsOptions) {
    this.#options = options
    this.#clock = options.clock
    this.#local = new MemoryStore(() => options.clock.now(), new ExpiringStates(MAX_LOCAL_KEYS))
    this.#store = options.store ?? this.#local
  }

  get isOnTrial(): boolean {
    return this.#knowledge !== 'complete'
  }

  get hasLimits(): boolean {
    return this.#limits.size > 0
  }

  /** End of the pause of all processes, by this process's clock; in the past if there is none. */
  get pausedUntilMs(): number {
    return this.#pausedUntilMs - (this.#aheadMs ?? 0)
  }

  async pauseUntil(ms: number): Promise<void> {
    if (ms <= this.pausedUntilMs) return
    this.#pausedUntilMs = ms + (this.#aheadMs ?? 0)
    await this.#writeNote()
  }

  async clear(): Promise<void> {
    const limits = [...this.#limits.values()]
    this.#limits.clear()
    this.#knowledge = 'none'
    this.#pausedUntilMs = 0
    this.#waitingSinceMs = undefined
    await this.#deleteCounts(limits)
    await this.#writeNote()
  }

  /** @returns the reservation, or the milliseconds after which to try again, at least 1 */
  async acquire(cost: number): Promise<CallReservation | number> {
    await this.#readNote()
    if (this.#knowledge === 'none' && this.#options.notes) return this.#acquireTrial(cost)
    const fromMs = this.#clock.now()
    const limits = [...this.#limits.values()]
    const charged = await this.#charge(limits, cost)
    if (charged.decision.granted > 0) return this.#reserve(cost, charged, fromMs)
    this.#waitingSinceMs ??= fromMs
    const { maxPauseMs } = this.#options
    const waitMs = findRetryAfterMs(charged.decision)
    const probeMs = this.#waitingSinceMs + maxPauseMs - fromMs
    // These may keep calls back beyond the longest pause: by their windows, or by windows that they once had.
    const stalled = limits.filter(({ windowMs }, index) => {
      const heldMs = charged.charges[index]?.limits[0]?.windowMs ?? 0
      return windowMs > maxPauseMs || (charged.decision.usage[index]?.[0]?.retryAfterMs ?? 0) > heldMs
    })
    if (stalled.length === 0 || waitMs <= probeMs) return waitMs
    if (probeMs > 0) return probeMs
    const flowing = limits.filter((limit) => !stalled.includes(limit))
    const others = await this.#charge(flowing, cost)
    if (others.decision.granted === 0) return findRetryAfterMs(others.decision)
    return this.#reserve(cost, others, fromMs, stalled)
  }

  async #acquireTrial(cost: number): Promise<CallReservation | number> {
    const trial = await this.#charge([TRIAL], 1)
    if (trial.decision.granted === 0) return findRetryAfterMs(trial.decision)
    this.#readAtMs = undefined
    // The process before wrote the note before it released its slot.
    await this.#readNote()
    const reservation = this.#reserve(cost, trial, this.#clock.now())
    if (this.#knowledge === 'none') {
      return { ...reservation, onEnded: (answer) => reservation.onEnded(answer).then(reservation.release) }
    }
    await reservation.release()
    return this.acquire(cost)
  }

  /** @param probed limits that kept calls back for too long: this one goes without their units */
  #reserve(cost: number, charged: Charged, fromMs: number, probed: readonly KnownLimit[] = []): CallReservation {
    const waitingSinceMs = this.#waitingSinceMs
    this.#waitingSinceMs = undefined
    const { slots } = charged
    const isTrial = this.#knowledge === 'none'
    const lastsMs = Math.min(...slots.map(({ limits }) => limits[0]?.windowMs ?? 0))
    let heldFromMs = fromMs
    let isCounted = false
    const renew = async () => {
      const nowMs = this.#clock.now()
      if (await this.#renew(charged)) heldFromMs = nowMs
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
        if (slots.length > 0) await charged.store.release(slots).catch(() => {})
      },
      onSent: () => {
        const { countedWithinMs } = this.#options
        if (isTrial || slots.length === 0 || countedWithinMs === Number.POSITIVE_INFINITY) return
        stopCounting = this.#clock.after(countedWithinMs, () => {
          isCounted = true
          stopKeeping()
          void renew()
        })
      },
      onEnded: async (answer) => {
        if (answer && !answer.isRefusal) await this.#deleteCounts(probed)
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

  /** Charges the units that a response shows to have been used, and writes the note if anything is new. */
  async #learn(reported: readonly ServerLimit[], cost: number, charged: Charged, isNews: boolean): Promise<void> {
    for (const report of reported) {
      const limit = this.#limits.get(report.name)
      if (!limit) continue
      const index = charged.charges.findIndex(({ name }) => name === limit.name)
      // The call was sent before this limit was known.
      if (index < 0) await this.#chargeLate(limit, cost, limit.windowMs)
      const before = charged.decision.usage[index]?.[0]?.remaining ?? limit.limit
      await this.#makeUp(limit, report, before)
    }
    const isFirst = this.#knowledge === 'none'
    this.#knowledge = reported.every(({ name }) => this.#limits.has(name)) ? 'complete' : 'partial'
    if (isNews || isFirst) await this.#writeNote()
  }

  /** Holds the difference until the reset if fewer units remain at the server than here: others use it too. */
  async #makeUp(limit: KnownLimit, { remaining, resetMs }: ServerLimit, before: number): Promise<void> {
    if (remaining === undefined || remaining >= before) return
    // All calls that the server had counted were held here before, so without others it would have more left.
    const { decision } = await this.#decide('peek', 1, [this.#toCharge(limit, 1)])
    const own = decision.usage[0]?.[0]?.remaining ?? 0
    const lastsMs = Math.min(resetMs ?? limit.windowMs, Math.max(limit.windowMs, this.#options.maxPauseMs))
    if (remaining < own) await this.#chargeLate(limit, own - remaining, lastsMs)
  }

  async #chargeLate(limit: KnownLimit, units: number, lastsMs: number): Promise<void> {
    if (lastsMs >= 1) await this.#decide('take-up-to', units, [this.#toCharge(limit, 1, lastsMs)])
  }

  #charge(limits: readonly KnownLimit[], cost: number): Promise<Charged> {
    const charges = limits.map((limit) => this.#toCharge(limit, cost))
    return this.#decide('take', 1, charges)
  }

  async #decide(
    action: 'take' | 'take-up-to' | 'peek',
    permits: number,
    charges: readonly LimitCharge[],
  ): Promise<Charged> {
    const request = { action, permits, charges }
    const charged = { charges, slots: charges.filter(({ algorithm }) => algorithm === 'concurrency') }
    if (charges.length > 0) {
      try {
        const decision = await this.#store.decide(request)
        this.#aheadMs = decision.nowMs - this.#clock.now()
        return { ...charged, store: this.#store, decision }
      } catch {
        // Without the store, each process holds the limits by itself, and learns of those that it exceeds by a 429.
      }
    }
    return { ...charged, store: this.#local, decision: await this.#local.decide(request) }
  }

  /** @param lastsMs time for which the units are held after their last renewal */
  #toCharge({ name, limit, windowMs }: KnownLimit, cost: number, lastsMs = windowMs): LimitCharge {
    const { toKey } = this.#options
    const charge = { name, cost: Math.min(cost, limit), mode: 'enforce', reserved: 0 } as const
    if (limit <= MAX_SLOTS) {
      const limits = [{ limit, windowMs: Math.ceil(lastsMs * (1 + CLOCK_RATE_SHARE)) + 1 }]
      return { ...charge, key: toKey(name, 'c'), algorithm: 'concurrency', limits, slot: drawNumber() }
    }
    const limits = [{ limit, windowMs: windowMs + Math.ceil(Math.max(MIN_LATENESS_MS, windowMs * LATENESS_SHARE)) }]
    return { ...charge, key: toKey(name, 'w'), algorithm: 'sliding-window', limits }
  }

  /** Holds slots for whole windows from now on, of the length that the limit has now. @returns false without an answer */
  async #renew({ store, slots }: Charged): Promise<boolean> {
    const renewed = slots.map((charge) => {
      const limit = this.#limits.get(charge.name)
      return limit ? { ...charge, limits: this.#toCharge(limit, 1).limits } : charge
    })
    if (slots.length === 0) return true
    return store.renew(renewed).then(
      () => true,
      () => false,
    )
  }

  async #deleteCounts(limits: readonly KnownLimit[]): Promise<void> {
    const { toKey } = this.#options
    const keys = limits.flatMap(({ name }) => [toKey(name, 'c'), toKey(name, 'w')])
    if (keys.length === 0) return
    await this.#local.delete(keys)
    // Without an answer, they last for their window.
    await this.#store.delete(keys).catch(() => {})
  }

  /** Reads the shared note. Only the first time, it waits for it. */
  async #readNote(): Promise<void> {
    const { notes } = this.#options
    const isFirst = this.#readAtMs === undefined
    if (!notes || this.#clock.now() < (this.#readAtMs ?? 0) + SHARED_NOTE_TTL_MS) return
    this.#readAtMs = this.#clock.now()
    // Without an answer, this process learns by itself.
    const reading = this.#mergeNote(notes).catch(() => {})
    if (isFirst) await reading
  }

  /** A new note holds what the server reported last, so it replaces what is known. */
  async #mergeNote(notes: Notes): Promise<void> {
    const before = this.#note
    const text = await notes.read(this.#options.toKey('', 'n'))
    const note = parseNote(text)
    // A pause ends by the clock of the store.
    if (note?.pausedUntilMs && this.#aheadMs === undefined) await this.#decide('peek', 1, [this.#toCharge(TRIAL, 1)])
    if (!note || text === before || this.#note !== before) return
    this.#note = text
    if (this.#knowledge === 'none') this.#knowledge = 'complete'
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, note.pausedUntilMs)
    for (const limit of note.limits) this.#limits.put(limit, this.#clock.now())
  }

  async #writeNote(): Promise<void> {
    const { notes, toKey } = this.#options
    if (!notes) return
    const limits = [...this.#limits.values()]
    const pauseMs = Math.max(0, this.pausedUntilMs - this.#clock.now())
    const ttlMs = Math.max(MAX_AGE_MS, ...limits.map(({ windowMs }) => 2 * windowMs)) + Math.ceil(pauseMs)
    const text = formatNote({ limits, pausedUntilMs: this.#pausedUntilMs })
    const before = this.#note
    this.#note = text
    try {
      await notes.write(toKey('', 'n'), text, ttlMs)
    } catch {
      // Other processes that miss it learn by themselves. The old note is no news here.
      this.#note = before
    }
  }
}

function repeat(clock: Clock, everyMs: number, work: () => Promise<unknown>): () => void {
  const again = () => {
    void work()
    stop = clock.after(everyMs, again)
  }
  let stop = clock.after(everyMs, again)
  return () => stop()
}

function findRetryAfterMs({ usage }: Decision): number {
  return Math.max(1, ...usage.flat().map((limit) => limit.retryAfterMs))
}
