/** Starts the calls to a server in their order, as its limits and those of a limiter allow. */
import { PRIORITIES } from '../core/model/policy.ts'
import { addAbortListener } from '../core/runtime/sleep.ts'
import { ChargedLimiter } from './charged-limiter.ts'
import type { Clock } from './clock.ts'
import type { CallWait } from './gate.ts'
import { type Answer, type Lane, Lanes, type StartedCall } from './lanes.ts'
import type {
  CallSettings,
  ObservedCall,
  OutboundDecision,
  OutboundErrorCode,
  OutboundWait,
  ResolvedOptions,
} from './options.ts'
import type { OwnLimiter } from './own-limits.ts'

/** The call was not made: nothing was sent for it since its last refusal, if any. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'
  readonly code: OutboundErrorCode
  /** Milliseconds after which the call may be made at the earliest, where that is known. */
  readonly retryAfterMs: number | undefined

  /** @param cause the error of the last call to this resource, if that failed */
  constructor(code: OutboundErrorCode, message: string, retryAfterMs?: number, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.retryAfterMs = retryAfterMs
  }
}

export interface SchedulerOptions
  extends Pick<ResolvedOptions, 'maxQueued' | 'pauseMs' | 'maxPauseMs' | 'concurrency' | 'clock' | 'random'> {
  /** The limiter charges it. */
  readonly resource: string
  readonly limiter: OwnLimiter | undefined
  /** Nothing but the limiter holds calls up until the server refuses one. */
  readonly isLimited: boolean
  readonly onWait: ((wait: OutboundWait) => void) | undefined
  readonly onDecision: ((decision: ObservedCall) => void) | undefined
}

export interface Call extends Pick<CallSettings, 'cost' | 'priority' | 'tenant'> {
  /** Method and path. */
  readonly route: string
  readonly signals: readonly (AbortSignal | null | undefined)[]
  /** The call is not made after this time of the clock. */
  readonly dueMs: number
  /** How often the server has refused it. It then goes before others, or chance might refuse it again and again. */
  readonly repetitions: number
}

/** A call that starts now, as the limiter has granted it. */
interface GrantedCall extends StartedCall {
  readonly decision: OutboundDecision | undefined
}

interface WaitingCall extends Call {
  lane: Lane<WaitingCall>
  readonly order: number
  readonly start: (started: GrantedCall) => void
  readonly reject: (reason: unknown) => void
  readonly leave: () => void
}

/** A wait this long is reported. */
const LONG_WAIT_MS = 1_000

/** Admits the calls of one resource one by one. */
export class Scheduler {
  readonly #options: SchedulerOptions
  readonly #clock: Clock
  readonly #limiter: ChargedLimiter | undefined
  readonly #lanes: Lanes<WaitingCall>
  #waiting = 0
  #order = 0
  readonly #inFlight = new Set<GrantedCall>()
  /** The limiter is being called for this one. */
  #requested: WaitingCall | undefined
  #isAdvancing = false
  #stopTimer: (() => void) | undefined
  #reportedMs = 0
  #lastFailure: { readonly text: string; readonly cause?: unknown } | undefined

  constructor(options: SchedulerOptions) {
    const { limiter, resource, clock } = options
    this.#options = options
    this.#clock = clock
    this.#limiter = limiter && new ChargedLimiter(limiter, resource, clock)
    this.#lanes = new Lanes(options)
  }

  /** It has neither calls nor a pause. */
  get isIdle(): boolean {
    return this.#waiting + this.#inFlight.size === 0 && this.#lanes.pausedUntilMs <= this.#clock.now()
  }

  resume(): void {
    this.#lanes.resume()
    this.#limiter?.resume()
    void this.#advance()
  }

  /** Checks if the call may start before its deadline, as far as is known. */
  isInTime(call: Call): boolean {
    const wait = this.#findWait(this.#lanes.find(call.route), call)
    return (wait?.untilMs ?? 0) <= call.dueMs
  }

  /** @throws {OutboundError} @throws the reason of the signal; the errors of the limiter and of the call */
  async run<T>(
    call: Call,
    make: () => T | Promise<T>,
    readAnswer?: (result: T, sentAtMs: number) => Answer | Promise<Answer>,
  ): Promise<{
    readonly result: T
    readonly answer: Answer | undefined
    readonly decision: OutboundDecision | undefined
  }> {
    let started = this.#startNow(call)
    const waiting = started ?? this.#wait(call)
    const { onDecision } = this.#options
    if (onDecision) this.#reportWait(call, waiting, onDecision)
    started ??= await waiting
    let answer: Answer | undefined
    try {
      const result = await make()
      answer = await readAnswer?.(result, started.atMs)
      return { result, answer, decision: started.decision }
    } catch (cause) {
      if (!findAborted(call)) this.#lastFailure = { text: 'the last call failed', cause }
      throw cause
    } finally {
      this.#end(started, answer)
    }
  }

  /** Starts a call that nothing holds up. @returns undefined if something does, or may do so */
  #startNow(call: Call): GrantedCall | undefined {
    const isFirst = this.#waiting === 0 && !this.#isAdvancing && this.#inFlight.size < this.#options.concurrency
    if (!isFirst || findAborted(call)) return undefined
    const lane = this.#lanes.find(call.route)
    if (this.#findWait(lane, call)) return undefined
    const decision = this.#limiter?.takeNow(call.cost)
    return this.#limiter && !decision ? undefined : this.#start(call, lane, decision)
  }

  #start({ cost, route }: Call, lane: Lane<WaitingCall>, decision: OutboundDecision | undefined): GrantedCall {
    const started: GrantedCall = { cost, route, atMs: this.#clock.now(), passages: [], decision }
    this.#inFlight.add(started)
    this.#lanes.onSent(started, lane)
    return started
  }

  #reportWait(
    { cost }: Call,
    waiting: GrantedCall | Promise<unknown>,
    onDecision: (decision: ObservedCall) => void,
  ): void {
    const { resource } = this.#options
    const sinceMs = this.#clock.now()
    const report = (outcome: ObservedCall['outcome'], retryAfterMs?: number) =>
      onDecision({ resource, outcome, cost, retryAfterMs, durationMs: this.#clock.now() - sinceMs })
    Promise.resolve(waiting).then(
      () => report('started'),
      (reason) => (reason instanceof OutboundError ? report(reason.code, reason.retryAfterMs) : report('failed')),
    )
  }

  #wait(call: Call): Promise<GrantedCall> {
    const aborted = findAborted(call)
    if (aborted) return Promise.reject(aborted.reason)
    return new Promise((resolve, reject) => {
      const { dueMs, signals } = call
      const stops: (() => void)[] = []
      for (const signal of signals) {
        if (signal) stops.push(addAbortListener(signal, () => this.#refuse(waiting, signal.reason)))
      }
      const isBounded = dueMs < Number.POSITIVE_INFINITY
      if (isBounded) stops.push(this.#clock.after(Math.max(0, dueMs - this.#clock.now()), () => this.#expire(waiting)))
      const leave = () => {
        for (const stop of stops) stop()
      }
      const lane = this.#lanes.find(call.route)
      const waiting: WaitingCall = { ...call, lane, order: this.#order++, start: resolve, reject, leave }
      lane.queue.add(waiting)
      if (++this.#waiting > this.#options.maxQueued) this.#refuseLeastImportant()
      void this.#advance()
      if (lane.queue.has(waiting)) this.#refuseLate([waiting], this.#findWait(lane, waiting))
    })
  }

  /** Starts calls, each in its turn, until all have to wait. */
  async #advance(): Promise<void> {
    if (this.#isAdvancing) return
    this.#isAdvancing = true
    this.#stopTimer?.()
    for (let next = this.#findNext(); next; next = this.#findNext()) {
      const decision = this.#limiter && (await this.#take(this.#limiter, next))
      if (!this.#limiter || decision) this.#startNext(next, decision)
      // Its deadline may have passed while the limiter was called.
      else this.#refuseLate([next], this.#findWait(next.lane, next))
    }
    this.#isAdvancing = false
  }

  /** @returns undefined if all have to wait: until the timer, or an answer */
  #findNext(): WaitingCall | undefined {
    let next: WaitingCall | undefined
    let first: CallWait | undefined
    if (this.#inFlight.size >= this.#options.concurrency) return undefined
    for (const lane of this.#lanes) {
      const { head } = lane.queue
      if (!head) continue
      const wait = this.#findWait(lane, head)
      if (!wait) next = next && comparePriority(next, head) <= 0 ? next : head
      else if (!first || wait.untilMs < first.untilMs) first = wait
      if (!wait || wait.untilMs <= lane.checkedMs) continue
      lane.checkedMs = wait.untilMs
      this.#refuseLate(lane.queue, wait)
    }
    if (!next && first && this.#waiting > 0) this.#waitUntil(first)
    return next
  }

  #waitUntil({ untilMs, reason }: CallWait): void {
    const { onWait, resource } = this.#options
    const waitMs = untilMs - this.#clock.now()
    this.#stopTimer?.()
    this.#stopTimer = this.#clock.after(waitMs, () => void this.#advance())
    if (waitMs < LONG_WAIT_MS || reason === 'start' || untilMs <= this.#reportedMs) return
    this.#reportedMs = untilMs
    if (onWait) queueMicrotask(() => onWait({ resource, reason, waitMs, waiting: this.#waiting }))
  }

  /** @returns undefined if the limiter does not grant it */
  async #take(limiter: ChargedLimiter, call: WaitingCall): Promise<OutboundDecision | undefined> {
    this.#requested = call
    try {
      return await limiter.take(call.cost)
    } catch (error) {
      this.#refuse(call, error)
      return undefined
    } finally {
      this.#requested = undefined
    }
  }

  /** Starts a call, or another of its lane if it has left: its permit is for any of the same cost. */
  #startNext(call: WaitingCall, decision: OutboundDecision | undefined): void {
    const { lane } = call
    const next = lane.queue.has(call) ? call : lane.queue.head
    // A pause may have begun while the limiter was called.
    if (next?.cost !== call.cost || this.#lanes.findWait(lane, next.cost, this.#clock.now())) return
    lane.queue.take(next)
    this.#waiting--
    next.leave()
    next.start(this.#start(next, lane, decision))
  }

  /** @throws what the limiter does */
  async settle(decision: OutboundDecision, units: number): Promise<void> {
    await this.#limiter?.settle(decision, units)
  }

  #end(call: GrantedCall, answer: Answer | undefined): void {
    if (answer?.isRefusal) this.#lastFailure = { text: `the server last refused with ${answer.status}` }
    this.#lanes.onAnswered(call, answer, this.#inFlight, this.#clock.now())
    this.#inFlight.delete(call)
    if (this.#waiting > 0) void this.#advance()
  }

  #findWait(lane: Lane<WaitingCall>, { cost }: Call): CallWait | undefined {
    const nowMs = this.#clock.now()
    const wait = this.#lanes.findWait(lane, cost, nowMs)
    const ofLimiter = this.#limiter?.findWait(cost, nowMs)
    return ofLimiter && ofLimiter.untilMs > (wait?.untilMs ?? 0) ? ofLimiter : wait
  }

  #expire(call: WaitingCall): void {
    // Its wait may be over in this instant, too.
    void this.#advance()
    if (this.#requested !== call) this.#refuse(call, this.#createTooLongError(undefined))
  }

  /** Refuses calls whose deadline ends before they may start. */
  #refuseLate(calls: Iterable<WaitingCall>, wait: CallWait | undefined): void {
    // An answer may end it at any time.
    if (!wait || wait.reason === 'start') return
    const retryAfterMs = wait.untilMs - this.#clock.now()
    for (const call of calls) if (call.dueMs < wait.untilMs) this.#refuse(call, this.#createTooLongError(retryAfterMs))
  }

  #refuseLeastImportant(): void {
    const candidates = [...this.#lanes].flatMap(({ queue }) => queue.findLeastImportant() ?? [])
    const least = candidates.toSorted(comparePriority).at(-1)
    if (least) this.#refuse(least, new OutboundError('QUEUE_FULL', 'too many calls wait for their turn'))
  }

  #refuse(call: WaitingCall, reason: unknown): void {
    if (!call.lane.queue.remove(call)) return
    this.#waiting--
    call.leave()
    call.reject(reason)
    void this.#advance()
  }

  #createTooLongError(retryAfterMs: number | undefined): OutboundError {
    const { text, cause } = this.#lastFailure ?? {}
    const wait = retryAfterMs === undefined ? '' : `: not for another ${Math.ceil(retryAfterMs)} ms`
    const message = `the wait would exceed maxWaitMs${wait}${text === undefined ? '' : `; ${text}`}`
    return new OutboundError('WAIT_TOO_LONG', message, retryAfterMs, cause)
  }
}

function findAborted({ signals }: Call): AbortSignal | undefined {
  for (const signal of signals) if (signal?.aborted) return signal
  return undefined
}

function comparePriority(a: WaitingCall, b: WaitingCall): number {
  return PRIORITIES.indexOf(a.priority) - PRIORITIES.indexOf(b.priority) || a.order - b.order
}
