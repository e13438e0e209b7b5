/** A limit that a server reports: when calls may start so that nothing more is refused, with those on their way. */
import type { ServerLimit } from './read-limits.ts'
import type { SentCall, SentCalls } from './sent-calls.ts'
import { findMargin, MAX_ROUNDING_MS, toWindow } from './window.ts'

/** Calls that were sent within this time may arrive in any order. */
const BURST_MS = 250
/** A reset that is later by this is of another window: seconds are rounded. */
const NEXT_WINDOW_MS = 1_100
/** While nothing says when more can be used, a call finds out this often. */
const PROBE_MS = 1_000
/** The use of others is seen in this many calls. Less than this share of it is chance. */
const MIN_USE_CALLS = 10
const MIN_SHARED = 1.2
/** A limit is deleted when the server has not reported it for this long, and for two of its windows. */
const MAX_AGE_MS = 3_600_000

export class ReportedLimit {
  readonly #sent: SentCalls
  readonly #maxPauseMs: number
  #limit = 0
  #remaining = 0
  /** The call whose answer has reported it. */
  #call: SentCall | undefined
  #reportedAtMs = 0
  /** A bucket's. */
  #refillPerMs: number | undefined
  /** As reported, or the longest that was seen; 0 if nothing is known, and for a bucket. */
  #windowMs = 0
  /** When more can be used; 0 if it was never reported. */
  #endMs = 0
  /** All of it is free at the end, which is not so if the window slides; undefined until that was seen. */
  #isFixed: boolean | undefined
  /** Units at the server for each that was sent: others use the limit too, or its units are others. */
  #perUnit = 1
  /** An earlier report, to compare. */
  #base: { readonly remaining: number; readonly call: SentCall } | undefined

  constructor(sent: SentCalls, maxPauseMs: number) {
    this.#sent = sent
    this.#maxPauseMs = maxPauseMs
  }

  isOld(nowMs: number): boolean {
    return nowMs - this.#reportedAtMs > Math.max(MAX_AGE_MS, 2 * this.#windowMs)
  }

  /** @returns when a call may start */
  findStartMs(cost: number, nowMs: number): number {
    if (!this.#call) return nowMs
    const lastMs = this.#sent.last?.atMs ?? 0
    const perUnit = this.#perUnit < MIN_SHARED ? 1 : this.#perUnit
    let startMs = nowMs
    if (this.#refillPerMs) {
      const level = this.#findLevel(this.#refillPerMs, this.#call, perUnit, nowMs)
      const missing = Math.min(this.#limit, cost * perUnit) - level
      // The rest of a rounding is no unit.
      if (missing > 1e-6) startMs += missing / this.#refillPerMs
    } else startMs = this.#findWindowMs(this.#call, cost, perUnit, lastMs, nowMs)
    if (this.#windowMs && perUnit > 1) startMs = Math.max(startMs, lastMs + (this.#windowMs / this.#limit) * perUnit)
    return Math.min(startMs, Math.max(this.#reportedAtMs, lastMs) + this.#maxPauseMs)
  }

  #findWindowMs(call: SentCall, cost: number, perUnit: number, lastMs: number, nowMs: number): number {
    const sent = this.#sent
    const isLeft = this.#countLeft(call) >= cost
    if (this.#windowMs === 0) return isLeft ? nowMs : lastMs + PROBE_MS
    if (nowMs < this.#endMs) return isLeft ? nowMs : this.#endMs
    // What is left now was not reported yet.
    if (lastMs < this.#endMs && this.#isFixed !== false) return nowMs
    const room = Math.max(1, Math.round(this.#limit / perUnit))
    const roomMs = sent.findRoomMs(room, this.#windowMs, cost, nowMs)
    const earlyMs = Math.min(MAX_ROUNDING_MS, this.#windowMs / 10)
    const isFree = nowMs < this.#endMs + this.#windowMs && sent.count(this.#endMs - earlyMs) + cost <= room
    if (!isFree || this.#isFixed === false) return roomMs
    return this.#isFixed ? nowMs : Math.min(roomMs, lastMs + PROBE_MS)
  }

  /** Units that are left at least. Which of the calls that were sent together are counted already is not known. */
  #countLeft(call: SentCall): number {
    const sent = this.#sent
    const left = this.#remaining - (sent.total - call.total + this.#countUnanswered(call))
    if (this.#windowMs === 0) return left
    const later = sent.count(this.#findLatestMs(call.atMs))
    const own = this.#countOwn(call)
    const others = Math.max(0, this.#limit - this.#remaining - own)
    return Math.max(left, this.#limit - others - own - later)
  }

  /** Units of its own that are counted in the window of a call, as far as it may have arrived. */
  #countOwn({ atMs }: SentCall): number {
    const windowMs = this.#windowMs
    const earliestMs = this.#endMs - windowMs - MAX_ROUNDING_MS
    const startMs = Math.max(atMs - windowMs, Math.min(atMs, earliestMs)) - Math.min(BURST_MS, windowMs / 10)
    return this.#sent.count(startMs, this.#findLatestMs(atMs))
  }

  /** When the last call was sent that may have arrived before one that was sent at some time. */
  #findLatestMs(ms: number): number {
    return Math.min(ms + BURST_MS, this.#reportedAtMs - 1)
  }

  /** What was in the bucket, with what has come and gone since. */
  #findLevel(refillPerMs: number, reporter: SentCall, perUnit: number, nowMs: number): number {
    let level = Math.max(0, this.#remaining - perUnit * this.#countUnanswered(reporter))
    let atMs = reporter.atMs
    for (const call of this.#sent.list(atMs, nowMs)) {
      if (call.total <= reporter.total) continue
      level = Math.min(this.#limit, level + refillPerMs * (call.atMs - atMs)) - perUnit * call.cost
      atMs = call.atMs
    }
    return Math.min(this.#limit, level + refillPerMs * (nowMs - atMs))
  }

  /** Units of calls that were sent together with it, and may arrive after it. */
  #countUnanswered({ atMs, total }: SentCall): number {
    const calls = [...this.#sent.list(atMs - BURST_MS, atMs)]
    return calls.reduce((sum, call) => sum + (call.isAnswered || call.total > total ? 0 : call.cost), 0)
  }

  update(report: ServerLimit, call: SentCall, nowMs: number): void {
    const known = this.#call
    const limit = report.limit ?? Math.max(this.#limit, (report.remaining ?? 0) + call.cost)
    if (limit < 1) return
    const { remaining = limit, unit } = report
    if (report.refillPerS) this.#refillPerMs = report.refillPerS / 1_000
    const windowMs = this.#refillPerMs ? 0 : this.#findWindow(report, call, limit - remaining, nowMs)
    this.#windowMs = Math.min(this.#maxPauseMs, windowMs)
    if (known && call.atMs < known.atMs - BURST_MS) return
    const endMs = this.#findEnd(report, call, windowMs, nowMs)
    const isNext = !this.#refillPerMs && endMs > this.#endMs + Math.min(NEXT_WINDOW_MS, windowMs / 2)
    const isSame = !isNext && endMs > this.#endMs - NEXT_WINDOW_MS
    const isFixed = this.#findKind(call, limit - remaining)
    // What else a call takes is seen at once, and if others use the limit, by and by.
    if (!known && unit) this.#perUnit = Math.max(1, (limit - remaining) / call.total)
    const isEarlier = known && call.total < known.total
    const isTogether = known && !isNext && (isEarlier || (!this.#refillPerMs && call.atMs <= known.atMs + BURST_MS))
    if (known && !isTogether) this.#perUnit = this.#findUse(known, isNext)
    // Of the same end in whole seconds, the earliest is the most precise.
    const isLong = windowMs > 2 * NEXT_WINDOW_MS && isFixed !== false
    this.#endMs = isSame && isLong ? Math.min(this.#endMs, endMs) : endMs
    this.#limit = limit
    this.#isFixed = isFixed
    this.#reportedAtMs = nowMs
    // Of calls that were sent together, the least is left when all have arrived.
    this.#remaining = isTogether ? Math.min(this.#remaining, remaining) : remaining
    this.#call = isEarlier ? known : call
    if (!this.#base || isNext) this.#base = { remaining, call }
  }

  /** Without a name for the window, it is as long as its end is from the first call that it counts. */
  #findWindow({ windowMs, resetMs }: ServerLimit, call: SentCall, used: number, nowMs: number): number {
    if (windowMs !== undefined) return windowMs
    if (resetMs === undefined) return this.#windowMs
    const sentUnits = this.#sent.total - this.#sent.count(call.atMs + BURST_MS)
    const firstMs = this.#sent.findTimeMs(Math.max(1, sentUnits - used + 1))
    return Math.max(
      this.#windowMs,
      toWindow(nowMs + Math.min(resetMs, this.#maxPauseMs) - Math.min(call.atMs, firstMs)),
    )
  }

  #findEnd(report: ServerLimit, call: SentCall, windowMs: number, nowMs: number): number {
    if (report.resetMs === undefined) return this.#endMs
    const endMs = nowMs + Math.min(report.resetMs, this.#maxPauseMs)
    // No window that counts a call lasts longer from then on.
    return Math.min(endMs, report.windowMs ? call.atMs + report.windowMs : endMs) + findMargin(windowMs)
  }

  /** After its end, a fixed window counts none of the calls before it; one that slides counts all that are not too old. */
  #findKind({ atMs }: SentCall, used: number): boolean | undefined {
    if (this.#windowMs < MAX_ROUNDING_MS) return false
    if (this.#endMs === 0 || atMs < this.#endMs) return this.#isFixed
    if (used < 0.7 * this.#sent.count(atMs - this.#windowMs, atMs - BURST_MS) - 2) return true
    const since = this.#perUnit * this.#sent.count(this.#endMs - BURST_MS, atMs + BURST_MS)
    return used > 1.3 * since + 2 ? false : this.#isFixed
  }

  /** Compares what the server has counted with the calls that were sent. */
  #findUse(known: SentCall, isNext: boolean): number {
    const perUnit = this.#perUnit
    if (!this.#refillPerMs) {
      if (!isNext) return perUnit
      const own = this.#countOwn(known)
      const counted = Math.max(1, (this.#limit - this.#remaining) / Math.max(1, own))
      return perUnit + (counted - perUnit) * (own / (own + 1 + this.#limit / 20))
    }
    const base = this.#base
    const units = base ? known.total - base.call.total : 0
    const around = ({ atMs }: SentCall) => this.#sent.count(atMs - BURST_MS, atMs + BURST_MS)
    if (!base || units < Math.max(MIN_USE_CALLS, 5 * (around(known) + around(base.call)))) return perUnit
    const freed = this.#refillPerMs * (known.atMs - base.call.atMs)
    const counted = Math.max(1, (base.remaining + freed - this.#remaining) / units)
    this.#base = { remaining: this.#remaining, call: known }
    return perUnit + (counted - perUnit) * (units / (units + MIN_USE_CALLS))
  }

  onRefused(): void {
    if (this.#perUnit >= MIN_SHARED) this.#perUnit *= 1.2
  }
}
