/** A limit that a server reports: when calls may start so that nothing more is refused, with those on their way. */
import type { ServerLimit } from './read-limits.ts'
import type { SentCall, SentCalls } from './sent-calls.ts'
import { findMargin, toWindow } from './window.ts'

/** Calls that were sent within this time may arrive in any order. */
const BURST_MS = 250
/** A reset that is later by this is of another window: seconds are rounded. */
const NEXT_WINDOW_MS = 1_100
/** Shorter windows are over before anything can be seen of their kind. */
const MIN_SEEN_MS = 2 * NEXT_WINDOW_MS
/** While nothing says when more can be used, a call finds out this often. */
const PROBE_MS = 1_000
/** The use of others is seen in this many calls. Less than this share of it is chance. */
const MIN_USE_CALLS = 10
export const MIN_SHARED = 1.2
/** A limit is deleted when the server has not reported it for this long, and for two of its windows. */
const MAX_AGE_MS = 3_600_000

/** As it was last reported. */
interface State {
  readonly limit: number
  readonly remaining: number
  /** A bucket's. */
  readonly refillPerMs: number | undefined
  /** As reported, or the longest that was seen; 0 if nothing is known, and for a bucket. */
  readonly windowMs: number
  /** 0 if it was never reported. */
  readonly resetAtMs: number
  /** All of it is free at the reset, which is not so if the window slides; undefined until that was seen. */
  readonly isFixed: boolean | undefined
  /** When the reporting call was sent, and how many units with it. */
  readonly sentAtMs: number
  readonly sentTotal: number
  /** Units of calls that were sent together with it, and may arrive after it. */
  readonly unanswered: number
  readonly reportedAtMs: number
  /** Units at the server for each that was sent: others use the limit too, or its units are others. */
  readonly perUnit: number
  /** An earlier report, to compare. */
  readonly base: Pick<State, 'remaining' | 'sentAtMs' | 'sentTotal'>
}

export class ReportedLimit {
  readonly #sent: SentCalls
  readonly #maxPauseMs: number
  #state: State | undefined

  constructor(sent: SentCalls, maxPauseMs: number) {
    this.#sent = sent
    this.#maxPauseMs = maxPauseMs
  }

  isOld(nowMs: number): boolean {
    const { reportedAtMs = nowMs, windowMs = 0 } = this.#state ?? {}
    return nowMs - reportedAtMs > Math.max(MAX_AGE_MS, 2 * windowMs)
  }

  /** @param caution units for each that is reported to be used */
  findStartMs(cost: number, caution: number, nowMs: number): number {
    const state = this.#state
    if (!state) return nowMs
    const lastMs = this.#sent.last?.atMs ?? 0
    const startMs = this.#findUnboundedMs({ ...state, perUnit: state.perUnit * caution }, cost, lastMs, nowMs)
    return Math.min(startMs, Math.max(state.reportedAtMs, lastMs) + this.#maxPauseMs)
  }

  #findUnboundedMs(state: State, cost: number, lastMs: number, nowMs: number): number {
    const { limit, remaining, refillPerMs, windowMs, resetAtMs, perUnit, isFixed } = state
    const units = Math.min(limit, cost * perUnit)
    if (refillPerMs) {
      const missing = units - this.#findLevel(state, refillPerMs, nowMs)
      // The rest of a rounding is no unit.
      return missing <= 1e-6 ? nowMs : nowMs + missing / refillPerMs
    }
    const pending = perUnit * (this.#sent.total - state.sentTotal + state.unanswered)
    const isLeft = remaining >= Math.round(pending + units)
    if (windowMs === 0) return isLeft ? nowMs : lastMs + PROBE_MS
    if (nowMs < resetAtMs) return isLeft ? nowMs : resetAtMs
    // What is left now was not reported yet.
    if (lastMs < resetAtMs) return nowMs
    const room = Math.max(1, Math.round(limit / perUnit))
    const isNextWindow = isFixed && nowMs < resetAtMs + windowMs
    if (isNextWindow && this.#sent.countSince(resetAtMs - 1) + cost <= room) return nowMs
    const roomMs = this.#sent.findRoomMs(room, windowMs, cost, nowMs)
    const canTell = resetAtMs > 0 && windowMs > Math.max(MIN_SEEN_MS, state.reportedAtMs - state.sentAtMs)
    return isFixed === undefined && canTell ? Math.min(roomMs, lastMs + PROBE_MS) : roomMs
  }

  /** Units in a bucket now: what was in it, with what has come and gone since. */
  #findLevel({ limit, remaining, perUnit, ...state }: State, refillPerMs: number, nowMs: number): number {
    let level = Math.max(0, remaining - perUnit * state.unanswered)
    let atMs = state.sentAtMs
    const refill = (untilMs: number) => {
      level = Math.min(limit, level + refillPerMs * (untilMs - atMs))
      atMs = untilMs
    }
    for (const call of this.#sent.listAdmitted(atMs, nowMs)) {
      if (call.total <= state.sentTotal) continue
      refill(call.atMs)
      level -= perUnit * call.cost
    }
    refill(nowMs)
    return level
  }

  update(report: ServerLimit, call: SentCall, nowMs: number): void {
    const known = this.#state
    const limit = report.limit ?? Math.max(known?.limit ?? 0, (report.remaining ?? 0) + call.cost)
    const aheadMs = known ? call.atMs - known.sentAtMs : Number.POSITIVE_INFINITY
    if (limit < 1 || aheadMs < -BURST_MS) return
    const { remaining = limit } = report
    const refillPerMs = this.#findRefill(report)
    const windowMs = refillPerMs ? 0 : this.#findWindow(report, call, limit - remaining, nowMs)
    const endMs = this.#findEnd(report, call, windowMs, nowMs)
    const isNextWindow = !refillPerMs && endMs > (known?.resetAtMs ?? 0) + NEXT_WINDOW_MS
    const isSameWindow = known && !isNextWindow && endMs > known.resetAtMs - NEXT_WINDOW_MS
    const isLong = windowMs > MIN_SEEN_MS && known?.isFixed !== false
    const sent = { remaining, sentAtMs: call.atMs, sentTotal: call.total }
    const use = known && !isNextWindow ? (aheadMs > BURST_MS ? this.#findUse(known) : known) : undefined
    // What else a call takes is seen at once, and if others use the limit, by and by.
    const perUnit = known?.perUnit ?? (report.unit ? Math.max(1, (limit - remaining) / call.total) : 1)
    const next: State = {
      limit,
      ...sent,
      refillPerMs,
      windowMs: Math.min(this.#maxPauseMs, windowMs),
      // Of the same end in whole seconds, the earliest is the most precise.
      resetAtMs: isSameWindow && isLong ? Math.min(known.resetAtMs, endMs) : endMs,
      isFixed: this.#findKind(call, limit - remaining, nowMs),
      unanswered: this.#sent.countUnanswered(call.atMs - BURST_MS, call.total),
      reportedAtMs: nowMs,
      perUnit: use?.perUnit ?? perUnit,
      base: use?.base ?? sent,
    }
    this.#state = !known || aheadMs > BURST_MS || isNextWindow ? next : this.#join(known, next)
  }

  /** Reports of calls that were sent together: the least is left when all have arrived. */
  #join(known: State, next: State): State {
    const latest = next.sentTotal > known.sentTotal ? next : known
    return {
      ...latest,
      unanswered: this.#sent.countUnanswered(known.sentAtMs - BURST_MS, latest.sentTotal),
      remaining: Math.min(known.remaining, next.remaining),
      reportedAtMs: next.reportedAtMs,
    }
  }

  /** Without a name for the window, it is as long as its end is from the first call that it counts. */
  #findWindow({ windowMs, resetMs }: ServerLimit, call: SentCall, used: number, nowMs: number): number {
    if (windowMs !== undefined) return windowMs
    const known = this.#state
    if (resetMs === undefined) return known?.windowMs ?? 0
    const firstMs = this.#sent.findTimeMs(Math.max(1, call.total - used + 1))
    const fromMs = known?.isFixed ? call.atMs : Math.min(call.atMs, firstMs)
    return Math.max(known?.windowMs ?? 0, toWindow(nowMs + Math.min(resetMs, this.#maxPauseMs) - fromMs))
  }

  #findEnd(report: ServerLimit, call: SentCall, windowMs: number, nowMs: number): number {
    if (report.resetMs === undefined) return this.#state?.resetAtMs ?? 0
    const endMs = nowMs + Math.min(report.resetMs, this.#maxPauseMs)
    // No window that counts a call lasts longer from then on.
    return Math.min(endMs, report.windowMs ? call.atMs + report.windowMs : endMs) + findMargin(windowMs)
  }

  /** After its reset, a fixed window counts none of the calls before it; one that slides counts all that are not too old. */
  #findKind(call: SentCall, used: number, nowMs: number): boolean | undefined {
    const known = this.#state
    if (!known?.windowMs || known.resetAtMs === 0 || call.atMs < known.resetAtMs) return known?.isFixed
    if (known.windowMs < Math.max(MIN_SEEN_MS, nowMs - call.atMs)) return undefined
    const later = this.#sent.total - call.total
    const countSince = (ms: number) => known.perUnit * (this.#sent.countSince(ms) - later)
    if (used < 0.7 * countSince(call.atMs - known.windowMs) - 2) return true
    return used > 1.3 * countSince(known.resetAtMs - BURST_MS) + 2 ? false : known.isFixed
  }

  /** The more of a bucket is missing, the better its rate can be seen. */
  #findRefill({ refillPerS, remaining, limit }: ServerLimit): number | undefined {
    const known = this.#state?.refillPerMs
    if (refillPerS === undefined) return known
    const share = limit && remaining !== undefined ? Math.min(1, 2 * (1 - remaining / limit)) : 1
    const before = known ?? refillPerS / 1_000
    return before + share * (refillPerS / 1_000 - before)
  }

  /** Compares what the server has counted from one report to another with the calls that were sent between them. */
  #findUse({ base, perUnit, ...known }: State): Pick<State, 'base' | 'perUnit'> {
    const units = known.sentTotal - base.sentTotal
    if (units < MIN_USE_CALLS) return { base, perUnit }
    const { windowMs } = known
    const expired = this.#sent.countSince(base.sentAtMs - windowMs) - this.#sent.countSince(known.sentAtMs - windowMs)
    const slid = known.isFixed === false ? perUnit * expired : 0
    const freed = known.refillPerMs ? known.refillPerMs * (known.sentAtMs - base.sentAtMs) : slid
    const counted = Math.max(1, (base.remaining + freed - known.remaining) / units)
    const next = perUnit + (counted - perUnit) * (units / (units + MIN_USE_CALLS))
    return { base: known, perUnit: next < MIN_SHARED ? 1 : next }
  }
}
