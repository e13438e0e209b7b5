/** Starts the calls to a server in their order, as its limits and those of a limiter allow. */
import { PRIORITIES } from '../core/model/policy.ts'
import { addAbortListener } from '../core/runtime/abort-listeners.ts'
import type { LimiterDecision } from '../library/decision.ts'
import { CallQueue } from './call-queue.ts'
import type { Clock } from './clock.ts'
import { Gate, type Hold } from './gate.ts'
import type {
  CallSettings,
  ObservedCall,
  OutboundDecision,
  OutboundErrorCode,
  OutboundLimiter,
  OutboundWait,
  ResolvedOptions,
} from './options.ts'
import type { Report } from './read-limits.ts'
import type { SentCall } from './sent-calls.ts'
import { ServerResources } from './server-resources.ts'

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

/** What an answer says. */
export interface Answer extends Report {
  readonly isRefusal: boolean
  readonly status: number
}

export interface SchedulerOptions
  extends Pick<ResolvedOptions, 'maxQueued' | 'maxPauseMs' | 'concurrency' | 'clock' | 'random'> {
  /** The limiter charges it. */
  readonly resource: string
  readonly limiter: OutboundLimiter | undefined
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

/** A gate, and the call as it knows it. */
interface Passage {
  readonly gate: Gate
  readonly sent: SentCall
}

/** A call that starts now. */
interface StartedCall extends Pick<Call, 'cost' | 'route'> {
  readonly atMs: number
  readonly passages: Passage[]
  /** Of the limiter. */
  readonly decision: OutboundDecision | undefined
}

interface WaitingCall extends Call {
  lane: Lane
  readonly order: number
  readonly start: (started: StartedCall) => void
  readonly reject: (reason: unknown) => void
  readonly leave: () => void
}

/** Calls to what the server has one name for. */
interface Lane {
  readonly queue: CallQueue<WaitingCall>
  /** After that of the whole resource; undefined without a name. */
  gate: Gate | undefined
  /** Calls that must start before were refused. */
  checkedMs: number
}

/** A server that names more costs nothing. */
const MAX_LANES = 100
/** Limiters take no empty identity, which stands for all calls here. */
const UNNAMED = '(all)'
/** A wait this long is reported. */
const LONG_WAIT_MS = 1_000

/** Admits the calls of one resource one by one. */
export class Scheduler {
  readonly #options: SchedulerOptions
  readonly #clock: Clock
  readonly #serverResources = new ServerResources()
  readonly #lanes = new Map<string | undefined, Lane>()
  #gate: Gate
  #waiting = 0
  #order = 0
  readonly #inFlight = new Set<StartedCall>()
  /** The limiter has refused a call of this cost. */
  #refused = { untilMs: 0, cost: 0 }
  /** The limiter is being called for this one. */
  #requested: WaitingCall | undefined
  #isAdvancing = false
  #stopTimer = () => {}
  #reportedMs = 0
  #lastFailure: { readonly text: string; readonly cause?: unknown } | undefined

  constructor(options: SchedulerOptions) {
    this.#options = options
    this.#clock = options.clock
    this.#gate = new Gate(options)
  }

  /** It has neither calls nor a pause. */
  get isIdle(): boolean {
    return this.#waiting + this.#inFlight.size === 0 && this.#gate.pausedUntilMs <= this.#clock.now()
  }

  resume(): void {
    this.#gate = new Gate(this.#options)
    for (const lane of this.#lanes.values()) lane.gate &&= this.#createGate()
    this.#refused = { untilMs: 0, cost: 0 }
    void this.#advance()
  }

  /** Checks if the call may start before its deadline, as far as is known. */
  isInTime(call: Call): boolean {
    const hold = this.#findHold(this.#getLane(this.#serverResources.find(call.route)), call)
    return (hold?.untilMs ?? 0) <= call.dueMs
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
    const waiting = this.#wait(call)
    this.#reportWait(call, waiting)
    const started = await waiting
    let answer: Answer | undefined
    try {
      const result = await make()
      answer = await readAnswer?.(result, started.atMs)
      return { result, answer, decision: started.decision }
    } catch (cause) {
      const isAborted = call.signals.some((signal) => signal?.aborted)
      if (!isAborted) this.#lastFailure = { text: 'the last call failed', cause }
      throw cause
    } finally {
      this.#end(started, answer)
    }
  }

  #reportWait({ cost }: Call, waiting: Promise<unknown>): void {
    const { onDecision, resource } = this.#options
    if (!onDecision) return
    const sinceMs = this.#clock.now()
    const report = (outcome: ObservedCall['outcome'], retryAfterMs?: number) =>
      onDecision({ resource, outcome, cost, retryAfterMs, durationMs: this.#clock.now() - sinceMs })
    waiting.then(
      () => report('started'),
      (reason) => (reason instanceof OutboundError ? report(reason.code, reason.retryAfterMs) : report('failed')),
    )
  }

  #wait(call: Call): Promise<StartedCall> {
    const aborted = call.signals.find((signal) => signal?.aborted)
    if (aborted) return Promise.reject(aborted.reason)
    return new Promise((resolve, reject) => {
      const { dueMs, signals } = call
      const stops = signals.map(
        (signal) => signal && addAbortListener(signal, () => this.#refuse(waiting, signal.reason)),
      )
      const isBounded = dueMs < Number.POSITIVE_INFINITY
      if (isBounded) stops.push(this.#clock.after(Math.max(0, dueMs - this.#clock.now()), () => this.#expire(waiting)))
      const leave = () => {
        for (const stop of stops) stop?.()
      }
      const lane = this.#getLane(this.#serverResources.find(call.route))
      const waiting: WaitingCall = { ...call, lane, order: this.#order++, start: resolve, reject, leave }
      lane.queue.add(waiting)
      if (++this.#waiting > this.#options.maxQueued) this.#refuseLeastImportant()
      void this.#advance()
      if (lane.queue.has(waiting)) this.#refuseLate([waiting], this.#findHold(lane, waiting))
    })
  }

  /** Starts calls, each in its turn, until all have to wait. */
  async #advance(): Promise<void> {
    if (this.#isAdvancing) return
    this.#isAdvancing = true
    this.#stopTimer()
    for (let next = this.#findNext(); next; next = this.#findNext()) {
      const { limiter } = this.#options
      const decision = limiter && (await this.#take(limiter, next))
      if (!limiter || decision) this.#start(next, decision)
      // Its deadline may have passed while the limiter was called.
      else this.#refuseLate([next], this.#findHold(next.lane, next))
    }
    this.#isAdvancing = false
  }

  /** @returns undefined if all have to wait: until the timer, or an answer */
  #findNext(): WaitingCall | undefined {
    let next: WaitingCall | undefined
    let first: Hold | undefined
    if (this.#inFlight.size >= this.#options.concurrency) return undefined
    for (const lane of this.#lanes.values()) {
      const { head } = lane.queue
      if (!head) continue
      const hold = this.#findHold(lane, head)
      if (!hold) next = next && comparePriority(next, head) <= 0 ? next : head
      else if (!first || hold.untilMs < first.untilMs) first = hold
      if (!hold || hold.untilMs <= lane.checkedMs) continue
      lane.checkedMs = hold.untilMs
      this.#refuseLate(lane.queue, hold)
    }
    if (!next && first && this.#waiting > 0) this.#waitUntil(first)
    return next
  }

  #waitUntil({ untilMs, reason }: Hold): void {
    const { onWait, resource } = this.#options
    const waitMs = untilMs - this.#clock.now()
    this.#stopTimer()
    this.#stopTimer = this.#clock.after(waitMs, () => void this.#advance())
    if (waitMs < LONG_WAIT_MS || reason === 'start' || untilMs <= this.#reportedMs) return
    this.#reportedMs = untilMs
    const wait = { resource, reason, waitMs, waiting: this.#waiting }
    if (onWait) queueMicrotask(() => onWait(wait))
  }

  /** @returns undefined if the limiter does not grant it */
  async #take(limiter: OutboundLimiter, call: WaitingCall): Promise<OutboundDecision | undefined> {
    const gate = this.#gate
    this.#requested = call
    try {
      const decision = await limiter.take(this.#options.resource || UNNAMED, { cost: call.cost })
      const { granted, retryAfterMs } = decision
      // If calls were resumed meanwhile, the limiter was reset as well.
      if (!granted && gate === this.#gate) {
        this.#refused = { untilMs: this.#clock.now() + Math.max(1, retryAfterMs), cost: call.cost }
      }
      return granted ? decision : undefined
    } catch (error) {
      this.#refuse(call, error)
      return undefined
    } finally {
      this.#requested = undefined
    }
  }

  /** Starts a call, or another of its lane if it has left: its permit is for any of the same cost. */
  #start(call: WaitingCall, decision: OutboundDecision | undefined): void {
    const { lane } = call
    const next = lane.queue.has(call) ? call : lane.queue.head
    const atMs = this.#clock.now()
    // A pause may have begun while the limiter was called.
    if (next?.cost !== call.cost || this.#findGateHold(lane, next)) return
    lane.queue.take(next)
    this.#waiting--
    next.leave()
    const started: StartedCall = { cost: next.cost, route: next.route, atMs, passages: [], decision }
    this.#inFlight.add(started)
    addPassage(started, this.#gate)
    addPassage(started, lane.gate)
    next.start(started)
  }

  /** Corrects what the limiter has charged for a call, if it can. @throws what the limiter does */
  async settle(decision: OutboundDecision, units: number): Promise<void> {
    const { limiter, resource } = this.#options
    if ('charged' in decision) await limiter?.settle?.(resource || UNNAMED, decision as LimiterDecision, units)
  }

  #end(call: StartedCall, answer: Answer | undefined): void {
    const nowMs = this.#clock.now()
    const { passages } = call
    const named = answer?.resource
    if (named !== undefined && this.#serverResources.learn(call.route, named)) this.#sortCalls()
    if (answer?.isRefusal) this.#lastFailure = { text: `the server last refused with ${answer.status}` }
    // If what it names is used up, other calls may go on.
    const isOfLane = named !== undefined && answer?.isRefusal && answer.limits.some(({ remaining }) => remaining === 0)
    const ofResource = answer && named !== undefined ? { ...answer, limits: [] } : answer
    const ofLane = answer && { ...answer, isRefusal: isOfLane === true }
    const laneGate = named === undefined ? undefined : this.#getLane(named).gate
    for (const { gate, sent } of passages) {
      if (gate === laneGate) gate.onAnswered(sent, ofLane, nowMs)
      else gate.onAnswered(sent, isOfLane || gate !== passages[0]?.gate ? undefined : ofResource, nowMs)
    }
    this.#inFlight.delete(call)
    void this.#advance()
  }

  /** Moves waiting calls to what the server has named meanwhile, and counts those on their way there. */
  #sortCalls(): void {
    for (const call of this.#inFlight) addPassage(call, this.#getLane(this.#serverResources.find(call.route)).gate)
    const calls = [...this.#lanes.values()].flatMap(({ queue }) => [...queue])
    for (const call of calls) {
      const lane = this.#getLane(this.#serverResources.find(call.route))
      if (lane === call.lane) continue
      call.lane.queue.remove(call)
      call.lane = lane
      lane.queue.add(call)
    }
  }

  #findHold(lane: Lane, call: Call): Hold | undefined {
    const hold = this.#findGateHold(lane, call)
    const { untilMs, cost } = this.#refused
    // A call of less cost need not wait as long.
    if (call.cost < cost || untilMs <= Math.max(this.#clock.now(), hold?.untilMs ?? 0)) return hold
    return { untilMs, reason: 'limiter' }
  }

  #findGateHold({ gate }: Lane, { cost }: Call): Hold | undefined {
    const nowMs = this.#clock.now()
    const [first, second] = [this.#gate.findHold(cost, nowMs), gate?.findHold(cost, nowMs)]
    return first && second && first.untilMs < second.untilMs ? second : (first ?? second)
  }

  #expire(call: WaitingCall): void {
    // Its wait may be over in this instant, too.
    void this.#advance()
    if (this.#requested !== call) this.#refuse(call, this.#createTooLongError(undefined))
  }

  /** Refuses calls whose deadline ends before they may start. */
  #refuseLate(calls: Iterable<WaitingCall>, hold: Hold | undefined): void {
    // An answer may end it at any time.
    if (!hold || hold.reason === 'start') return
    const retryAfterMs = hold.untilMs - this.#clock.now()
    for (const call of calls) if (call.dueMs < hold.untilMs) this.#refuse(call, this.#createTooLongError(retryAfterMs))
  }

  #refuseLeastImportant(): void {
    const candidates = [...this.#lanes.values()].flatMap(({ queue }) => queue.findLeastImportant() ?? [])
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

  #createGate(): Gate {
    return new Gate({ ...this.#options, isLimited: true })
  }

  #getLane(name: string | undefined): Lane {
    let lane = this.#lanes.get(name)
    if (!lane) {
      lane = { queue: new CallQueue(), gate: name === undefined ? undefined : this.#createGate(), checkedMs: 0 }
      this.#lanes.set(name, lane)
      const idle = [...this.#lanes].find(
        ([other, { queue }]) => other !== undefined && other !== name && queue.size === 0,
      )
      if (this.#lanes.size > MAX_LANES && idle) this.#lanes.delete(idle[0])
    }
    return lane
  }
}

function addPassage({ cost, atMs, passages }: StartedCall, gate: Gate | undefined): void {
  if (gate && passages.every((passage) => passage.gate !== gate)) {
    passages.push({ gate, sent: gate.onSent(cost, atMs) })
  }
}

function comparePriority(a: WaitingCall, b: WaitingCall): number {
  return PRIORITIES.indexOf(a.priority) - PRIORITIES.indexOf(b.priority) || a.order - b.order
}

/** Beyond this, the least recently used resources are deleted if they have neither calls nor a pause. */
const MAX_RESOURCES = 5_000
/** How many are looked at for one that may be deleted. */
const MAX_TRIED = 10

export class Schedulers {
  readonly #create: (resource: string) => Scheduler
  /** Keyed by resource; the most recently used is the last. */
  readonly #schedulers = new Map<string, Scheduler>()

  constructor(create: (resource: string) => Scheduler) {
    this.#create = create
  }

  get(resource: string): Scheduler {
    const scheduler = this.#schedulers.get(resource) ?? this.#create(resource)
    this.#schedulers.delete(resource)
    this.#schedulers.set(resource, scheduler)
    if (this.#schedulers.size > MAX_RESOURCES) this.#deleteOne()
    return scheduler
  }

  resume(resource: string | undefined): void {
    for (const [name, scheduler] of this.#schedulers)
      if (resource === undefined || name === resource) scheduler.resume()
  }

  #deleteOne(): void {
    let tried = 0
    for (const [resource, scheduler] of this.#schedulers) {
      this.#schedulers.delete(resource)
      if (scheduler.isIdle) return
      this.#schedulers.set(resource, scheduler)
      if (++tried === MAX_TRIED) return
    }
  }
}
