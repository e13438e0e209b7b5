/** A limit that a server reports: when calls may start so that nothing more is refused, with those on their way. */
import type { ServerLimit } from './read-limits.ts'
import type { SentCall, SentCalls } from './sent-calls.ts'
import { MAX_ROUNDING_MS, MAX_TRIP_MS, toWindow } from './window.ts'

/** The clocks of two machines do not run alike. */
const END_MARGIN_MS = 50
/** A window that seems to be longer by less than this is as long as before: trips and dates differ. */
const MIN_LONGER_SHARE = 1.25
/** While nothing says when more can be used, a call finds out this often. */
const PROBE_MS = 1_000
/** The ends of shorter windows are not seen exactly enough. */
const MIN_PROBED_MS = 6_000
/** The use of others is seen in this many calls. Less than this share of it is chance. */
const MIN_USE_CALLS = 10
const MIN_SHARED = 1.2
/** A window that begins with more used by others slides, or it lasts longer than was seen. */
const MAX_FRESH_SHARE = 0.1
/** A limit is deleted when the server has not reported it for this long, and for two of its windows. */
const MAX_AGE_MS = 3_600_000

/** A call, and what was left according to its answer. */
interface Seen {
  readonly remaining: number
  readonly call: SentCall
}

/**
 * A report compared with the last one: of a call that was sent long before that one's (`late`), within the time by which
 * trips differ (`together`), or after it, and counted in the same window or bucket, or in the next window.
 */
type Order = 'first' | 'late' | 'together' | 'same' | 'next'

export class LearnedLimit {
  readonly #sent: SentCalls
  readonly #maxPauseMs: number
  #limit = 0
  #last: Seen | undefined
  #firstAtMs = 0
  #reportedAtMs = 0
  /** A bucket's. */
  #refillPerMs: number | undefined
  /** The reported window, or the longest that was seen; 0 if nothing is known, and for a bucket. */
  #windowMs = 0
  /** It was reported, or seen from the beginning. */
  #isWindowKnown = false
  /** When more can be used; 0 if it was never reported. */
  #endMs = 0
  /** Units at the server for each that was sent: others use the limit too, or its units are others. */
  #perUnit = 1
  /** If units are no calls, one report shows only the sum that all calls have taken, those of the past too. */
  #isUseGuessed = false
  /** Units that others have used in this window, or this process's own past: at least so many. */
  #others = 0
  /** An earlier report, to compare. */
  #base: Seen | undefined

  constructor(sent: SentCalls, maxPauseMs: number) {
    this.#sent = sent
    this.#maxPauseMs = maxPauseMs
  }

  isOld(nowMs: number): boolean {
    return nowMs - this.#reportedAtMs > Math.max(MAX_AGE_MS, 2 * this.#windowMs)
  }

  /** @returns when a call may start */
  findStartMs(cost: number, nowMs: number): number {
    if (!this.#last) return nowMs
    const lastMs = this.#sent.last?.atMs ?? 0
    // Calls that were sent after its end were told of another limit, which is tighter.
    const isHidden = this.#sent.reportedAtMs > Math.max(this.#reportedAtMs, this.#endMs)
    const perUnit = this.#perUnit < MIN_SHARED || isHidden ? 1 : this.#perUnit
    let startMs = nowMs
    if (this.#refillPerMs) {
      const level = this.#findLevel(this.#refillPerMs, this.#last, perUnit, nowMs - this.#sent.spreadMs)
      const missing = Math.min(this.#limit, cost * perUnit) - level
      // The rest of a rounding is no unit.
      if (missing > 1e-6) startMs += missing / this.#refillPerMs
      if (this.#isUseGuessed) startMs = Math.min(startMs, Math.max(nowMs, lastMs + PROBE_MS))
    } else if (isHidden) startMs = this.#sent.findRoomMs(this.#limit, this.#windowMs, cost, nowMs)
    else startMs = this.#findWindowMs(this.#last, cost, perUnit, lastMs, nowMs)
    if (this.#windowMs && perUnit > 1) startMs = Math.max(startMs, lastMs + (this.#windowMs / this.#limit) * perUnit)
    return Math.min(startMs, Math.max(this.#reportedAtMs, lastMs) + this.#maxPauseMs)
  }

  #findWindowMs(last: Seen, cost: number, perUnit: number, lastMs: number, nowMs: number): number {
    const sent = this.#sent
    const isLeft = this.#countLeft(last) >= cost
    const probeMs = lastMs + Math.max(PROBE_MS, sent.slowestRefusalMs)
    if (this.#endMs === 0 || nowMs < this.#endMs) {
      if (isLeft) return nowMs
      if (this.#endMs > 0) return this.#endMs
      // What is left now was not reported yet.
    } else if (lastMs < this.#endMs && this.#windowMs >= MAX_ROUNDING_MS) return nowMs
    // There may be calls of this process's own past that it does not know of.
    const isComplete = this.#others <= 0 || nowMs - this.#firstAtMs >= this.#windowMs
    if (!this.#isWindowKnown || !isComplete) return probeMs
    const room = Math.max(1, Math.round(this.#limit / perUnit))
    const roomMs = sent.findRoomMs(room, this.#windowMs, cost, nowMs)
    return this.#endMs > 0 && this.#windowMs >= MIN_PROBED_MS ? Math.min(roomMs, probeMs) : roomMs
  }

  /** Units that are left at least. Which of the calls that were sent together are counted already is not known. */
  #countLeft({ remaining, call }: Seen): number {
    const left = remaining - (this.#sent.total - call.total + this.#countUnanswered(call))
    // What others use grows unseen.
    if (this.#windowMs === 0 || this.#others > 0) return left
    return Math.max(left, this.#limit - this.#countOwn(call, Number.POSITIVE_INFINITY))
  }

  /** Units of its own that are counted in the window of a call, as far as they may have arrived before it. */
  #countOwn({ atMs }: SentCall, untilMs = Math.min(atMs + this.#sent.spreadMs, this.#reportedAtMs - 1)): number {
    const windowMs = this.#windowMs
    const earliestMs = this.#endMs - windowMs - MAX_ROUNDING_MS
    const startMs = Math.max(atMs - windowMs, Math.min(atMs, earliestMs)) - Math.min(this.#sent.spreadMs, windowMs / 10)
    return this.#sent.count(startMs, untilMs)
  }

  /** Finds how full the bucket is: its content then, with what has come and gone since. */
  #findLevel(refillPerMs: number, { remaining, call: reporter }: Seen, perUnit: number, nowMs: number): number {
    let level = Math.max(0, remaining - perUnit * this.#countUnanswered(reporter))
    let atMs = reporter.atMs
    for (const call of this.#sent.list(atMs, Number.POSITIVE_INFINITY)) {
      if (call.total <= reporter.total) continue
      level = Math.min(this.#limit, level + refillPerMs * (call.atMs - atMs)) - perUnit * call.cost
      atMs = call.atMs
    }
    return Math.min(this.#limit, level + refillPerMs * (nowMs - atMs))
  }

  /** Units of calls that were sent together with it, and may arrive after it. */
  #countUnanswered({ atMs, total }: SentCall): number {
    let units = 0
    for (const call of this.#sent.list(atMs - this.#sent.spreadMs, atMs)) {
      if (!call.isAnswered && call.total <= total) units += call.cost
    }
    return units
  }

  update(report: ServerLimit, call: SentCall, nowMs: number): void {
    const limit = report.limit ?? Math.max(this.#limit, (report.remaining ?? 0) + call.cost)
    if (limit < 1) return
    const seen: Seen = { remaining: report.remaining ?? limit, call }
    this.#refillPerMs = report.refillPerS ? report.refillPerS / 1_000 : this.#refillPerMs
    this.#windowMs = this.#refillPerMs ? 0 : Math.min(this.#maxPauseMs, this.#findWindow(report, call, nowMs))
    this.#isWindowKnown ||= report.windowMs !== undefined
    const endMs = this.#findEnd(report, call, nowMs)
    const last = this.#last ?? seen
    const order = this.#classify(seen, endMs)
    if (order === 'late') return
    if (order === 'next') this.#compareWindow(last)
    if (order === 'next' || order === 'first') this.#endMs = report.resetMs === undefined ? 0 : endMs
    this.#limit = limit
    this.#reportedAtMs = nowMs
    const others = this.#refillPerMs ? 0 : limit - seen.remaining - this.#countOwn(call)
    const latest = call.total < last.call.total ? last.call : call
    switch (order) {
      case 'first':
        this.#firstAtMs = call.atMs
        this.#base = this.#last = seen
        this.#isUseGuessed = report.unit !== undefined
        if (this.#isUseGuessed) this.#perUnit = Math.max(1, (limit - seen.remaining) / Math.max(1, call.total))
        this.#others = others
        return
      case 'next':
        this.#base = seen
        this.#last = { ...seen, call: latest }
        this.#others = others
        this.#isWindowKnown ||= report.resetMs !== undefined && call.cost > 0 && others <= limit * MAX_FRESH_SHARE
        return
      default:
        if (this.#refillPerMs || report.unit) this.#compareWithBase(seen)
        // Of calls that were sent together, the least is left when all have arrived.
        this.#last = {
          remaining: order === 'together' ? Math.min(last.remaining, seen.remaining) : seen.remaining,
          call: latest,
        }
        this.#others = Math.max(this.#others, others)
        // Of the same end in whole seconds, the earliest is the most precise.
        this.#endMs = this.#windowMs >= MIN_PROBED_MS ? Math.min(this.#endMs, endMs) : endMs
    }
  }

  /** Compares a report with the last one. */
  #classify({ remaining, call: { atMs, total } }: Seen, endMs: number): Order {
    const last = this.#last
    if (!last) return 'first'
    const { spreadMs } = this.#sent
    if (atMs < last.call.atMs - spreadMs) return 'late'
    if (this.#refillPerMs) return total < last.call.total ? 'together' : 'same'
    const isLater = atMs > last.call.atMs + spreadMs
    if (endMs > this.#endMs + this.#windowMs / 2) return 'next'
    if (isLater && (remaining > last.remaining || (this.#endMs > 0 && atMs >= this.#endMs))) return 'next'
    return isLater ? 'same' : 'together'
  }

  /** Without a name for the window, it is as long as its end is from a call that it counts, at least. */
  #findWindow({ windowMs, resetMs }: ServerLimit, call: SentCall, nowMs: number): number {
    if (windowMs !== undefined) return windowMs
    if (resetMs === undefined) return this.#windowMs
    const seenMs = nowMs + Math.min(resetMs, this.#maxPauseMs) - call.atMs
    return seenMs < MIN_LONGER_SHARE * this.#windowMs ? this.#windowMs : Math.max(this.#windowMs, toWindow(seenMs))
  }

  #findEnd(report: ServerLimit, call: SentCall, nowMs: number): number {
    if (report.resetMs === undefined) return this.#endMs
    const endMs = nowMs + Math.min(report.resetMs, this.#maxPauseMs)
    // No window that counts a call lasts longer from then on.
    const countedMs = Math.min(nowMs, call.atMs + MAX_TRIP_MS)
    return (
      Math.min(endMs, report.windowMs ? countedMs + report.windowMs : endMs) +
      Math.min(END_MARGIN_MS, this.#windowMs / 100)
    )
  }

  /** Finds how much others have used: all that a window has counted beyond the calls of this process. */
  #compareWindow({ remaining, call }: Seen): void {
    const base = this.#base as Seen
    // What was used before the first report may have been by this process's own past.
    const isWhole = this.#isWindowKnown && call.atMs - this.#firstAtMs >= this.#windowMs
    const own = isWhole ? this.#countOwn(call) : call.total - base.call.total
    if (!isWhole && own < 5 * this.#countAround(base.call)) return
    const used = (isWhole ? this.#limit : base.remaining) - remaining
    this.#learnUse(used / Math.max(1, own), own / (own + 1 + this.#limit / 20))
  }

  /** Finds how much was used since another report: all that has come back since then and is not there. */
  #compareWithBase(seen: Seen): void {
    const base = this.#base as Seen
    const units = seen.call.total - base.call.total
    const minUnits = this.#isUseGuessed ? 1 : MIN_USE_CALLS
    if (units < Math.max(minUnits, 5 * (this.#countAround(seen.call) + this.#countAround(base.call)))) return
    const freed = (this.#refillPerMs ?? 0) * (seen.call.atMs - base.call.atMs)
    this.#base = seen
    this.#isUseGuessed = false
    this.#learnUse((base.remaining + freed - seen.remaining) / units, units / (units + minUnits - 1))
  }

  /** Units of other calls that may have been counted before or after it. */
  #countAround({ atMs, cost }: SentCall): number {
    const { spreadMs } = this.#sent
    return this.#sent.count(atMs - spreadMs, atMs + spreadMs) - cost
  }

  #learnUse(perUnit: number, weight: number): void {
    this.#perUnit += (Math.max(1, perUnit) - this.#perUnit) * weight
  }

  onRefused(): void {
    if (this.#perUnit >= MIN_SHARED) this.#perUnit *= 1.2
  }
}
