/**
 * The calls of one identity, which share its limits: they wait in one queue, are let through one by one, and all of them
 * stop when the server says so.
 */
import { CallQueue, type Place } from './call-queue.ts'
import type { Clock } from './clock.ts'
import type { Hold, LearnedLimits } from './learned-limits.ts'
import type { OutboundLimiter } from './limiter.ts'
import { OutboundError } from './outbound-error.ts'
import { Pace } from './pace.ts'
import type { ServerLimit } from './server-limit.ts'

/** Pauses where a server refuses without saying for how long: doubled by each refusal in a row. */
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 60_000

/** After a pause, clients do not all come back at once: up to a tenth of it later, within these bounds. */
const JITTER_SHARE = 0.1
const LEAST_JITTER_MS = 100
const MOST_JITTER_MS = 1_000

/** How often what was granted is asked for anew because it came too late: a slow store must not keep calls forever. */
const MOST_LAPSES = 3

export interface PartitionOptions {
  readonly identity: string
  readonly limiter: OutboundLimiter | undefined
  /** Left out, nothing is learned from answers. */
  readonly learned: LearnedLimits | undefined
  /** Calls that may wait at once, an integer from 1. */
  readonly maxQueued: number
  /** The longest pause, whatever the server says. */
  readonly maxPauseMs: number
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
}

export interface CallOptions extends Place {
  readonly cost: number
  readonly signal: AbortSignal | undefined
  /** By the clock: after it, the call is not made any more. */
  readonly dueMs: number
}

/** The result of a call that was sent. */
export interface Answer {
  /** The server has refused it for now, with 429 or 503. */
  readonly isRefusal: boolean
  /** Milliseconds for which it asked to wait, if it did. */
  readonly retryAfterMs: number | undefined
  readonly limits: readonly ServerLimit[]
}

/** A call that may be made, now. */
export interface Permit {
  /** To be called once, when the call is over. @param answer undefined if there was none */
  ended(answer: Answer | undefined): Promise<void>
}

interface Waiting extends CallOptions {
  readonly resolve: (permit: Permit) => void
  readonly reject: (reason: unknown) => void
  /** Ends its deadline and its signal. */
  readonly leave: () => void
}

/** Why nobody goes on: until when (by the clock), and the cost that was asked for; nothing for a pause. */
interface Block {
  readonly untilMs: number
  readonly cost: number
}

export class Partition {
  readonly #options: PartitionOptions
  readonly #clock: Clock
  readonly #queue: CallQueue<Waiting>
  #isRunning = false
  /** Ends the wait for the next moment at which a call may go. */
  #wake = () => {}
  #isWaitingForAnswer = false
  #block: Block | undefined
  /** The call that is asked for right now. */
  #asked: Waiting | undefined
  #inFlight = 0
  /** After a pause: one call at a time, until the server has answered one without refusing it. */
  #isResuming = false
  #pausedUntilMs = 0
  #pausedAtMs = Number.NEGATIVE_INFINITY
  #refusalsInARow = 0
  #lapsesInARow = 0
  readonly #pace: Pace

  constructor(options: PartitionOptions) {
    this.#options = options
    this.#clock = options.clock
    this.#queue = new CallQueue(options.maxQueued)
    this.#pace = new Pace(options.maxPauseMs)
  }

  /** Nothing waits, nothing is under way. */
  get isIdle(): boolean {
    return this.#queue.size === 0 && this.#inFlight === 0
  }

  /** Milliseconds for which the server has asked everybody to wait; 0 if it has not. */
  get pausedMs(): number {
    const { learned } = this.#options
    return Math.max(0, this.#pausedUntilMs - this.#clock.now(), (learned?.pausedUntilMs ?? 0) - this.#clock.now())
  }

  /** Ends a pause, and forgets what the server has said. */
  async resume(): Promise<void> {
    this.#pausedUntilMs = 0
    this.#refusalsInARow = 0
    this.#isResuming = false
    this.#pace.forget()
    await this.#options.learned?.forget()
    this.#block = undefined
    this.#wake()
  }

  /**
   * Waits until the call may be made.
   * @throws {OutboundError} if it cannot be made in time, or too many wait already
   * @throws the reason of the signal, if that is aborted before
   */
  enter(call: CallOptions): Promise<Permit> {
    const { signal, dueMs } = call
    if (signal?.aborted) return Promise.reject(signal.reason)
    return new Promise((resolve, reject) => {
      const abort = () => this.#refuse(waiting, signal?.reason)
      const stopTimer =
        dueMs < Number.POSITIVE_INFINITY ? this.#clock.after(this.#leftMs(dueMs), () => late()) : () => {}
      const leave = () => {
        signal?.removeEventListener('abort', abort)
        stopTimer()
      }
      const waiting: Waiting = { ...call, resolve, reject, leave }
      const late = () => this.#isAskedNow(waiting) || this.#refuse(waiting, tooLong())
      signal?.addEventListener('abort', abort)
      const surplus = this.#queue.add(waiting)
      if (surplus) this.#refuse(surplus, new OutboundError('QUEUE_FULL', 'too many calls wait for their turn'))
      if (surplus === waiting) return
      const isAskedAtOnce = this.#canGoBefore(waiting)
      if (this.#block && dueMs < this.#block.untilMs && !isAskedAtOnce) {
        return this.#refuse(waiting, tooLong(this.#leftMs(this.#block.untilMs)))
      }
      if (isAskedAtOnce) this.#wake()
      void this.#run()
    })
  }

  async #run(): Promise<void> {
    if (this.#isRunning) return
    this.#isRunning = true
    for (let head = this.#queue.head; head; head = this.#queue.head) {
      this.#asked = head
      const waitMs = await this.#letThrough(head)
      this.#asked = undefined
      if (waitMs > 0) await this.#wait(waitMs, head)
    }
    this.#isRunning = false
  }

  /** @returns milliseconds after which to try again; infinity to wait until an answer has come */
  async #letThrough(head: Waiting): Promise<number> {
    const { limiter, learned, identity } = this.#options
    if (this.pausedMs > 0) return this.pausedMs
    if (this.#inFlight >= this.#maxInFlight()) return Number.POSITIVE_INFINITY
    const paceMs = this.#pace.waitMs(this.#clock.now())
    if (paceMs > 0) return paceMs
    let hold: Hold | undefined
    try {
      const held = await learned?.acquire(head.cost)
      if (typeof held === 'number') return held
      hold = held
      // It may have begun meanwhile, here or elsewhere.
      const decision = this.pausedMs > 0 ? undefined : await limiter?.take(identity, { cost: head.cost })
      const waitMs = decision?.granted === false ? Math.max(1, decision.retryAfterMs) : this.pausedMs
      const next = this.#fitting(head)
      const isLapsed = hold?.isCurrent() === false && ++this.#lapsesInARow <= MOST_LAPSES
      if (waitMs > 0 || !next || isLapsed) {
        await hold?.release()
        return waitMs
      }
      this.#lapsesInARow = 0
      this.#send(next, hold)
    } catch (error) {
      await hold?.release()
      this.#refuse(head, error)
    }
    return 0
  }

  #maxInFlight(): number {
    const { learned } = this.#options
    if (this.#isResuming || learned?.isOnTrial) return 1
    return learned && !learned.hasLimits ? this.#pace.maxInFlight : Number.POSITIVE_INFINITY
  }

  /** The call that was asked for, or, if it has gone, another one for which the same has been granted. */
  #fitting(asked: Waiting): Waiting | undefined {
    if (this.#queue.has(asked)) return asked
    const { head } = this.#queue
    return head?.cost === asked.cost ? head : undefined
  }

  #send(call: Waiting, hold: Hold | undefined): void {
    this.#queue.take(call)
    call.leave()
    this.#inFlight++
    const sentAtMs = this.#clock.now()
    this.#pace.sent(sentAtMs)
    hold?.sent()
    call.resolve({ ended: (answer) => this.#ended(hold, sentAtMs, answer) })
  }

  async #ended(hold: Hold | undefined, sentAtMs: number, answer: Answer | undefined): Promise<void> {
    const { learned } = this.#options
    try {
      if (answer?.isRefusal) this.#pause(sentAtMs, answer)
      else if (answer) this.#pace.admitted(sentAtMs)
      await hold?.ended(answer)
      if (answer?.isRefusal) await learned?.pauseUntil(this.#pausedUntilMs)
      else if (answer && sentAtMs >= this.#pausedUntilMs) {
        this.#isResuming = false
        this.#refusalsInARow = 0
      }
    } finally {
      this.#inFlight--
      if (this.#isWaitingForAnswer) this.#wake()
    }
  }

  #pause(sentAtMs: number, { retryAfterMs, limits }: Answer): void {
    const nowMs = this.#clock.now()
    const { random, maxPauseMs } = this.#options
    // Those that were under way when the pause began say nothing new about it.
    if (sentAtMs > this.#pausedAtMs) this.#refusalsInARow++
    this.#pausedAtMs = nowMs
    const resetsMs = limits.flatMap(({ remaining, resetMs }) => (remaining === 0 && resetMs ? [resetMs] : []))
    const guessedMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#refusalsInARow - 1))
    const saidMs = retryAfterMs ?? (resetsMs.length > 0 ? Math.max(...resetsMs) : guessedMs)
    const pauseMs = Math.min(saidMs, maxPauseMs)
    if (limits.length === 0) this.#pace.refused(sentAtMs, pauseMs, nowMs)
    const jitterMs = random() * Math.min(MOST_JITTER_MS, Math.max(LEAST_JITTER_MS, pauseMs * JITTER_SHARE))
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + pauseMs + jitterMs)
    this.#isResuming = true
    this.#block = { untilMs: this.#pausedUntilMs, cost: 0 }
    this.#refuseLate()
  }

  /** Waits, but only until there is a call that needs less. */
  async #wait(ms: number, { cost }: Waiting): Promise<void> {
    const isForAnswer = ms === Number.POSITIVE_INFINITY
    this.#isWaitingForAnswer = isForAnswer
    if (!isForAnswer) {
      this.#block = { untilMs: this.#clock.now() + ms, cost: this.pausedMs > 0 ? 0 : cost }
      this.#refuseLate()
    }
    const { head } = this.#queue
    // What would wake it may have happened since it was found that there is something to wait for.
    if (head && !this.#canGoBefore(head) && !(isForAnswer && this.#inFlight === 0)) {
      await new Promise<void>((resolve) => {
        const stop = isForAnswer ? () => {} : this.#clock.after(ms, resolve)
        this.#wake = () => {
          stop()
          resolve()
        }
      })
    }
    this.#wake = () => {}
    this.#block = undefined
  }

  #refuse(call: Waiting, reason: unknown): void {
    call.leave()
    this.#queue.remove(call)
    call.reject(reason)
    const { head } = this.#queue
    if (!head || this.#canGoBefore(head)) this.#wake()
  }

  /** Calls whose deadline comes before any of them may go are told so at once. */
  #refuseLate(): void {
    const block = this.#block
    if (!block) return
    for (const call of this.#queue) {
      if (call.dueMs < block.untilMs) this.#refuse(call, tooLong(this.#leftMs(block.untilMs)))
    }
  }

  /** Whether what it waits for may yet be had at this very moment; if not, it is refused right after. */
  #isAskedNow(call: Waiting): boolean {
    const isHead = call === this.#queue.head
    return call === this.#asked || (isHead && this.#block !== undefined && this.#block.untilMs <= this.#clock.now())
  }

  /** Whether it is its turn, and it needs less than what was asked for in vain. */
  #canGoBefore(call: Waiting): boolean {
    return this.#block !== undefined && call === this.#queue.head && call.cost < this.#block.cost
  }

  #leftMs(untilMs: number): number {
    return Math.max(0, untilMs - this.#clock.now())
  }
}

function tooLong(retryAfterMs?: number): OutboundError {
  const known = retryAfterMs === undefined ? '' : `: not for another ${Math.ceil(retryAfterMs)} ms`
  return new OutboundError('WAIT_TOO_LONG', `the call cannot be made in time${known}`, retryAfterMs)
}
