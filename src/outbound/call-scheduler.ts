/** Starts the calls of a tenant as its limits allow. */
import { checkSignal } from '../core/options/check-options.ts'
import { CallQueue } from './call-queue.ts'
import type { Clock } from './clock.ts'
import type { CallReservation, LearnedLimits } from './learned-limits.ts'
import type { CallSettings, OutboundLimiter, ResolvedOptions } from './options.ts'
import { Pace } from './pace.ts'
import type { Answer } from './server-limit.ts'

/** Pauses if a server refuses without `Retry-After` or a reset: doubled by each refusal in a row. */
const FIRST_PAUSE_MS = 1_000
const MAX_GUESSED_PAUSE_MS = 60_000
/** A pause is longer by up to a tenth, at random and within these bounds, so that clients do not return at once. */
const JITTER_SHARE = 0.1
const MIN_JITTER_MS = 100
const MAX_JITTER_MS = 1_000
/** Expired reservations that are made again for a call: a slow store must not keep calls back forever. */
const MAX_EXPIRED_IN_A_ROW = 3
/** Beyond this, the least recently used identities without limits of the server are deleted. */
const MAX_IDLE = 1_000
/** Beyond this, also those with limits of the server are deleted. */
const MAX_KNOWN = 5_000
/** How many are looked at for one that may be deleted; those that may not are looked at again after all others. */
const MAX_TRIED = 10

/**
 * - `WAIT_TOO_LONG`: the call cannot be made before its deadline, as far as is known now.
 * - `QUEUE_FULL`: too many calls wait, and none of them is less important than this one.
 */
export type OutboundErrorCode = 'WAIT_TOO_LONG' | 'QUEUE_FULL'

/** The call was not made: nothing was sent for it since its last refusal, if any. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'
  readonly code: OutboundErrorCode
  /** Milliseconds after which the call may be made at the earliest, where that is known. */
  readonly retryAfterMs: number | undefined

  constructor(code: OutboundErrorCode, message: string, retryAfterMs?: number) {
    super(message)
    this.code = code
    this.retryAfterMs = retryAfterMs
  }
}

export interface SchedulerOptions extends Pick<ResolvedOptions, 'maxQueued' | 'maxPauseMs' | 'clock' | 'random'> {
  readonly identity: string
  readonly limiter: OutboundLimiter | undefined
  /** Undefined: nothing is learned from answers. */
  readonly learned: LearnedLimits | undefined
}

export interface Call extends Pick<CallSettings, 'cost' | 'priority' | 'tenant'> {
  readonly signal: AbortSignal | null | undefined
  /** The call is not made after this time of the clock. */
  readonly dueMs: number
  /** How often the server has refused it. It then goes before others, or chance might refuse it again and again. */
  readonly repetitions?: number
}

/** Called once; without an answer if the call failed. */
type End = (answer: Answer | undefined) => Promise<void>

interface WaitingCall extends Call {
  readonly resolve: (end: End) => void
  readonly reject: (reason: unknown) => void
  readonly leave: () => void
}

/** Admits the calls of one identity one by one. All of them stop if the server refuses one. */
export class CallScheduler {
  readonly #options: SchedulerOptions
  readonly #clock: Clock
  readonly #queue: CallQueue<WaitingCall>
  #pace: Pace
  /** The limits are being charged for this call. */
  #requested: WaitingCall | undefined
  /** The wait of the head, for an answer if `untilMs` is undefined. A call of less cost need not wait for it. */
  #wait: { readonly untilMs: number | undefined; readonly cost: number } | undefined
  #stopTimer = () => {}
  #inFlight = 0
  #pausedUntilMs = 0
  /** Calls go one at a time until the server has admitted one after a pause. */
  #refusalsInARow = 0
  #expiredInARow = 0

  constructor(options: SchedulerOptions) {
    this.#options = options
    this.#clock = options.clock
    this.#queue = new CallQueue(options.maxQueued)
    this.#pace = new Pace(options.maxPauseMs)
  }

  /** It has neither calls nor a pause. */
  get isIdle(): boolean {
    return this.#queue.size === 0 && this.#inFlight === 0 && this.pausedMs === 0
  }

  get isInformed(): boolean {
    return this.#options.learned?.hasLimits === true
  }

  get pausedMs(): number {
    return this.#countRemainingMs(Math.max(this.#pausedUntilMs, this.#options.learned?.pausedUntilMs ?? 0))
  }

  async resume(): Promise<void> {
    this.#pausedUntilMs = 0
    this.#refusalsInARow = 0
    await this.#options.learned?.clear()
    this.#pace = new Pace(this.#options.maxPauseMs)
    void this.#advance()
  }

  /** @throws {OutboundError} @throws the reason of the signal; the errors of the limiter and of the call */
  async run<T>(call: Call, make: () => T | Promise<T>, readAnswer?: (result: T) => Answer): Promise<T> {
    const end = await this.#enter(call)
    let answer: Answer | undefined
    try {
      const result = await make()
      answer = readAnswer?.(result)
      return result
    } finally {
      await end(answer)
    }
  }

  #enter(call: Call): Promise<End> {
    const { signal, dueMs } = call
    if (signal?.aborted) return Promise.reject(signal.reason)
    return new Promise((resolve, reject) => {
      checkSignal('signal', signal ?? undefined)
      const abort = () => this.#refuse(waiting, signal?.reason)
      const expire = () => this.#isRequestedNow(waiting) || this.#refuse(waiting, createTooLongError())
      const stopTimer =
        dueMs < Number.POSITIVE_INFINITY ? this.#clock.after(this.#countRemainingMs(dueMs), expire) : () => {}
      const leave = () => {
        signal?.removeEventListener('abort', abort)
        stopTimer()
      }
      const waiting: WaitingCall = { ...call, resolve, reject, leave }
      signal?.addEventListener('abort', abort)
      const surplus = this.#queue.add(waiting)
      if (surplus) this.#refuse(surplus, new OutboundError('QUEUE_FULL', 'too many calls wait for their turn'))
      if (surplus === waiting) return
      if (this.#isNext(waiting)) void this.#advance()
      else this.#refuseLate([waiting])
    })
  }

  /** Admits calls, each in its turn, until one has to wait. */
  async #advance(): Promise<void> {
    if (this.#requested) return
    this.#stopTimer()
    this.#wait = undefined
    for (let head = this.#queue.head; head && !this.#wait; head = this.#queue.head) {
      this.#requested = head
      const pace = this.#pace
      const waitMs = await this.#admit(head)
      // If calls were resumed meanwhile, the wait was determined by what is forgotten now.
      if (waitMs > 0 && pace === this.#pace) this.#waitAsHead(waitMs, head)
    }
    this.#requested = undefined
  }

  /** @returns milliseconds after which to try again; infinity: when an answer has come */
  async #admit(head: WaitingCall): Promise<number> {
    const { limiter, learned, identity } = this.#options
    if (this.pausedMs > 0) return this.pausedMs
    if (this.#inFlight >= this.#findMaxInFlight()) return Number.POSITIVE_INFINITY
    const paceMs = this.#pace.waitMs(this.#clock.now())
    if (paceMs > 0) return paceMs
    let reservation: CallReservation | undefined
    try {
      const acquired = await learned?.acquire(head.cost)
      if (typeof acquired === 'number') return acquired
      reservation = acquired
      // A pause may have begun meanwhile, here or elsewhere.
      const decision = this.pausedMs > 0 ? undefined : await limiter?.take(identity, { cost: head.cost })
      const waitMs = decision?.granted === false ? Math.max(1, decision.retryAfterMs) : this.pausedMs
      // If the call has left, its permit is for another one of the same cost.
      const next = this.#queue.has(head) ? head : this.#queue.head
      const isExpired = reservation?.isCurrent() === false && ++this.#expiredInARow <= MAX_EXPIRED_IN_A_ROW
      if (waitMs > 0 || next?.cost !== head.cost || isExpired) {
        await reservation?.release()
        return waitMs
      }
      this.#expiredInARow = 0
      this.#send(next, reservation)
    } catch (error) {
      await reservation?.release()
      this.#refuse(head, error)
    }
    return 0
  }

  #findMaxInFlight(): number {
    const { learned } = this.#options
    if (this.#refusalsInARow > 0 || learned?.isOnTrial) return 1
    return learned && !learned.hasLimits ? this.#pace.maxInFlight : Number.POSITIVE_INFINITY
  }

  #send(call: WaitingCall, reservation: CallReservation | undefined): void {
    this.#queue.take(call)
    call.leave()
    this.#inFlight++
    const sentAtMs = this.#clock.now()
    this.#pace.onSent(sentAtMs)
    reservation?.onSent()
    call.resolve((answer) => this.#end(reservation, sentAtMs, answer))
  }

  async #end(reservation: CallReservation | undefined, sentAtMs: number, answer: Answer | undefined): Promise<void> {
    try {
      if (answer?.isRefusal) this.#pause(sentAtMs, answer)
      else if (answer) this.#pace.onAdmitted(sentAtMs)
      await reservation?.onEnded(answer)
      if (answer?.isRefusal) await this.#options.learned?.pauseUntil(this.#pausedUntilMs)
      else if (answer && sentAtMs >= this.#pausedUntilMs) this.#refusalsInARow = 0
    } finally {
      this.#inFlight--
      if (this.#wait && this.#wait.untilMs === undefined) void this.#advance()
    }
  }

  #pause(sentAtMs: number, { retryAfterMs, limits }: Answer): void {
    const nowMs = this.#clock.now()
    const { random, maxPauseMs } = this.#options
    // Refusals of calls that were under way when the pause began do not prolong it.
    if (sentAtMs >= this.#pausedUntilMs || this.#refusalsInARow === 0) this.#refusalsInARow++
    const resetsMs = limits.flatMap(({ remaining, resetMs }) => (remaining === 0 && resetMs ? [resetMs] : []))
    const guessedMs = Math.min(MAX_GUESSED_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#refusalsInARow - 1))
    const requestedMs = retryAfterMs ?? (resetsMs.length > 0 ? Math.max(...resetsMs) : guessedMs)
    const pauseMs = Math.min(requestedMs, maxPauseMs)
    if (limits.length === 0) this.#pace.onRefused(sentAtMs, pauseMs, nowMs)
    const jitterMs = random() * Math.min(MAX_JITTER_MS, Math.max(MIN_JITTER_MS, pauseMs * JITTER_SHARE))
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + pauseMs + jitterMs)
    this.#refuseLate(this.#queue)
  }

  /** Lets the head wait, unless another call has its turn meanwhile. */
  #waitAsHead(ms: number, { cost }: WaitingCall): void {
    const untilMs = ms === Number.POSITIVE_INFINITY ? undefined : this.#clock.now() + ms
    this.#wait = { untilMs, cost }
    this.#refuseLate(this.#queue)
    const { head } = this.#queue
    // The last answer may have come while the wait was determined.
    const isOver = untilMs === undefined && this.#inFlight === 0
    if (!head || this.#isNext(head) || isOver) this.#wait = undefined
    else if (untilMs !== undefined) this.#stopTimer = this.#clock.after(ms, () => void this.#advance())
  }

  #refuse(call: WaitingCall, reason: unknown): void {
    call.leave()
    this.#queue.remove(call)
    call.reject(reason)
    const { head } = this.#queue
    if (!head || this.#isNext(head)) void this.#advance()
  }

  /** Refuses calls whose deadline ends before any call may go. */
  #refuseLate(calls: Iterable<WaitingCall>): void {
    const untilMs = Math.max(this.#wait?.untilMs ?? 0, this.#pausedUntilMs)
    for (const call of calls)
      if (call.dueMs < untilMs) this.#refuse(call, createTooLongError(this.#countRemainingMs(untilMs)))
  }

  /** Checks if the call may still be admitted now; if it is not, it is refused right after. */
  #isRequestedNow(call: WaitingCall): boolean {
    const { untilMs = Number.POSITIVE_INFINITY } = this.#wait ?? {}
    return call === this.#requested || (call === this.#queue.head && untilMs <= this.#clock.now())
  }

  /** Checks if the call is at the head, and does not have to wait as long as the call that was there. */
  #isNext(call: WaitingCall): boolean {
    return call === this.#queue.head && call.cost < (this.#wait?.cost ?? Number.POSITIVE_INFINITY)
  }

  #countRemainingMs(untilMs: number): number {
    return Math.max(0, untilMs - this.#clock.now())
  }
}

function createTooLongError(retryAfterMs?: number): OutboundError {
  const wait = retryAfterMs === undefined ? '' : `: not for another ${Math.ceil(retryAfterMs)} ms`
  return new OutboundError('WAIT_TOO_LONG', `the wait would exceed maxWaitMs${wait}`, retryAfterMs)
}

export class CallSchedulers {
  readonly #create: (identity: string) => CallScheduler
  /** Keyed by identity; the most recently used is the last. */
  readonly #schedulers = new Map<string, CallScheduler>()

  constructor(create: (identity: string) => CallScheduler) {
    this.#create = create
  }

  get(identity: string): CallScheduler {
    const scheduler = this.#schedulers.get(identity) ?? this.#create(identity)
    this.#schedulers.delete(identity)
    this.#schedulers.set(identity, scheduler)
    if (this.#schedulers.size > MAX_IDLE) this.#deleteOne()
    return scheduler
  }

  async resume(identity: string | undefined): Promise<void> {
    const schedulers = [...this.#schedulers].filter(([one]) => identity === undefined || one === identity)
    await Promise.all(schedulers.map(([, scheduler]) => scheduler.resume()))
  }

  #deleteOne(): void {
    let tried = 0
    for (const [identity, scheduler] of this.#schedulers) {
      const isNeeded = scheduler.isInformed && this.#schedulers.size <= MAX_KNOWN
      this.#schedulers.delete(identity)
      if (scheduler.isIdle && !isNeeded) return
      this.#schedulers.set(identity, scheduler)
      if (++tried === MAX_TRIED) return
    }
  }
}
