/**
 * Decides when calls to a resource of a server may start, by what the server has answered: pauses that it asked for,
 * limits that it reports, and the pace at which it refused.
 */
import { Pace } from './pace.ts'
import type { Report } from './read-limits.ts'
import { LearnedLimit } from './reported-limit.ts'
import { type SentCall, SentCalls } from './sent-calls.ts'

/** Why calls wait. `start`: nothing is known of the server yet, until it has answered a first call. */
export type WaitReason = 'limiter' | 'start' | 'refusal' | 'report'

export interface CallWait {
  /** The clock ends it then; an answer may end it before. */
  readonly untilMs: number
  readonly reason: WaitReason
}

export interface GateOptions {
  readonly pauseMs: number
  readonly maxPauseMs: number
  readonly random: () => number
  /** Nothing but a limiter holds calls up until the server refuses one. */
  readonly isLimited: boolean
}

/** An unanswered call holds others up for this long: an answer may take minutes, or never come. */
const PATIENCE_MS = 1_000
/** Room that a call without a refusal makes for others while nothing is known of the server. */
const GROWTH = 0.5
/** Pauses of a server that asks for none are doubled by each refusal in a row, up to so many times the first. */
const MAX_PAUSES = 60
/** A pause that is asked for in whole seconds is longer than the rounding from here on. */
const MIN_REQUESTED_MS = 1_000
/** A pause is longer by up to a tenth, at random and within these bounds, so that clients do not return at once. */
const JITTER_SHARE = 0.1
const MIN_JITTER_MS = 50
const MAX_JITTER_MS = 300
/** A server that reports more costs nothing. */
const MAX_LIMITS = 16

export class Gate {
  readonly #options: GateOptions
  readonly #sent = new SentCalls()
  readonly #pace: Pace
  /** The one that was last reported comes last. */
  readonly #limits = new Map<string, LearnedLimit>()
  /** Unanswered calls that hold others up, in the order in which they were sent. */
  readonly #recent = new Set<SentCall>()
  #maxRecent: number
  pausedUntilMs = 0
  #refusalsInARow = 0

  constructor(options: GateOptions) {
    this.#options = options
    this.#pace = new Pace(this.#sent, options.maxPauseMs)
    this.#maxRecent = options.isLimited ? Number.POSITIVE_INFINITY : 1
  }

  /** @returns undefined if a call may start now */
  findWait(cost: number, nowMs: number): CallWait | undefined {
    const releasedMs = this.#releaseOld(nowMs)
    const startMs = this.#recent.size >= Math.floor(this.#maxRecent) ? releasedMs : 0
    const refusedMs = Math.max(this.pausedUntilMs, this.#pace.findStartMs(cost, nowMs))
    let reportedMs = 0
    for (const limit of this.#limits.values()) reportedMs = Math.max(reportedMs, limit.findStartMs(cost, nowMs))
    const untilMs = Math.max(startMs, refusedMs, reportedMs)
    if (untilMs <= nowMs) return undefined
    return { untilMs, reason: untilMs === refusedMs ? 'refusal' : untilMs === reportedMs ? 'report' : 'start' }
  }

  onSent(cost: number, nowMs: number): SentCall {
    const call = this.#sent.add(cost, nowMs, this.#options.maxPauseMs)
    this.#recent.add(call)
    return call
  }

  /** @param answer undefined if the call failed, or if its answer is about something else */
  onAnswered(call: SentCall, answer: (Report & { readonly isRefusal: boolean }) | undefined, nowMs: number): void {
    this.#releaseOld(nowMs)
    const wasRecent = this.#recent.delete(call)
    call.isAnswered = true
    if (!answer) return
    this.#sent.onAnswered(nowMs - call.atMs, answer.isRefusal)
    // What the server has refused, it does not count.
    if (answer.isRefusal) this.#sent.onRefused(call)
    this.#update(answer, call, nowMs)
    if (answer.isRefusal) this.#pause(call, answer, nowMs)
    // Calls that were sent before a refusal tell nothing about the time after it.
    else if (call.atMs >= this.pausedUntilMs) {
      if (wasRecent) this.#makeRoom()
      this.#pace.onAdmitted(call.cost)
    }
  }

  /**
   * Calls that were not refused within a moment are as good as admitted. Servers that take longer are known by that.
   * @returns when the next one is
   */
  #releaseOld(nowMs: number): number {
    const patienceMs = Math.max(PATIENCE_MS, this.#sent.slowestRefusalMs)
    for (const call of this.#recent) {
      if (call.atMs + patienceMs > nowMs) return call.atMs + patienceMs
      this.#recent.delete(call)
      // Where answers come sooner, it may well be refused.
      if (call.atMs >= this.pausedUntilMs && this.#sent.fastestMs > PATIENCE_MS) this.#makeRoom()
    }
    return 0
  }

  #makeRoom(): void {
    this.#refusalsInARow = 0
    // After a refusal, the pace bounds the calls, or what the server reports.
    this.#maxRecent = this.pausedUntilMs > 0 ? Number.POSITIVE_INFINITY : this.#maxRecent + GROWTH
  }

  #update({ limits }: Report, call: SentCall, nowMs: number): void {
    if (limits.length > 0) this.#sent.reportedAtMs = Math.max(this.#sent.reportedAtMs, call.atMs)
    for (const report of limits) {
      const id = report.name ?? String(report.limit)
      const limit = this.#limits.get(id) ?? new LearnedLimit(this.#sent, this.#options.maxPauseMs)
      limit.update(report, call, nowMs)
      this.#limits.delete(id)
      this.#limits.set(id, limit)
    }
    for (const [id, limit] of this.#limits) {
      if (limit.isOld(nowMs) || this.#limits.size > MAX_LIMITS) this.#limits.delete(id)
    }
  }

  #pause(call: SentCall, { limits, retryAfterMs = 0 }: Report, nowMs: number): void {
    const { random, pauseMs: firstMs, maxPauseMs } = this.#options
    const isRepeated = call.atMs < this.pausedUntilMs
    if (!isRepeated) this.#refusalsInARow++
    const usedUp = limits.filter(({ remaining }) => remaining === 0)
    const requestedMs = Math.max(0, retryAfterMs, ...usedUp.map(({ resetMs = 0 }) => resetMs))
    const guessedMs = firstMs * Math.min(MAX_PAUSES, 2 ** (this.#refusalsInARow - 1))
    const pauseMs = Math.min(requestedMs || guessedMs, maxPauseMs)
    const isExplained = usedUp.some(({ resetMs, refillPerS, windowMs }) => resetMs || refillPerS || windowMs)
    if (!isExplained) {
      const isRequested = requestedMs > MIN_REQUESTED_MS
      this.#pace.onRefused({ call, pauseMs, isRequested, isRepeated, resumedAtMs: this.pausedUntilMs }, nowMs)
    } else if (!isRepeated) {
      for (const { name, limit } of usedUp) this.#limits.get(name ?? String(limit))?.onRefused()
    }
    if (isRepeated && (requestedMs === 0 || nowMs + requestedMs <= this.pausedUntilMs)) return
    const jitterMs = random() * Math.min(MAX_JITTER_MS, Math.max(MIN_JITTER_MS, pauseMs * JITTER_SHARE))
    this.pausedUntilMs = Math.max(this.pausedUntilMs, nowMs + pauseMs + jitterMs)
    this.#maxRecent = 1
  }
}
