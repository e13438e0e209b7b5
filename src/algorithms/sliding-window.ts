import type { StoreCharge } from '../model/charge.ts'
import type { Limit } from '../model/limits.ts'
import { type Algorithm, type MutableLimitState, type PenaltyState, toPeek } from './algorithm.ts'

/**
 * Twin of `lua/sliding-window.lua`: an exact log of admissions, read as prefix sums.
 *
 * It decides as the Lua does, but stores one entry for all admissions of the same millisecond, because windows do not
 * distinguish them. So a log never has more entries than its longest window has milliseconds.
 */

export interface SlidingWindowState {
  /** Dates of the entries, ascending. Numbers in arrays of their own take a third of what objects would. */
  readonly dates: number[]
  /** Per entry, all units ever admitted up to it. */
  readonly totals: number[]
  /** All units ever admitted before the entries in these arrays. */
  before: number
  /** Index of the first entry that counts: earlier ones are dropped in bulk, so that each is moved once. */
  head: number
  /** The longest window when the newest entry was added. */
  keptMs: number
  penalty: PenaltyState | undefined
  /** Date of the latest penalty, which is an entry of no units; 0 if there was none. */
  penaltyMs: number
  /** No entry is dropped. */
  keepsAll?: boolean
}

/** At least so many entries are dropped at once. */
const BULK = 8

/**
 * Old entries are dropped when the total of units passes a multiple of 64, or of 8 if the longest window holds fewer
 * than 64: this says whether it does.
 */
export function isTrimmed(held: number, total: number, units: number): boolean {
  const together = held < 64 ? 8 : 64
  // The remainder by a power of two, which is slow to divide by once totals are no small integers.
  return (total & (together - 1)) + units >= together
}

export const slidingWindow: Algorithm<SlidingWindowState> = {
  peek(log = NOTHING, charge, nowUs, wanted) {
    const now = Math.floor(nowUs / 1000)
    return toPeek(
      charge.limits.map((limit) => createUsage(log, limit, now, wanted)),
      log.penalty,
    )
  },

  commit(log = emptyLog(), charge, nowUs, units, leaseMs = 0, penalty) {
    const now = Math.floor(nowUs / 1000)
    const keptMs = longestWindowMs(charge)
    const newestMs = findNewestMs(log)
    const total = totalAt(log, log.totals.length - 1)
    const held = total - totalAt(log, firstAbove(log.dates, log.head, now - keptMs) - 1)
    // Rounded up, so that it stays its whole window. Time never goes back: if the clock did, entries stay longer.
    let dateMs = Math.max(Math.ceil(nowUs / 1000) + leaseMs, newestMs)
    if (penalty) {
      // The total stays, so the date must grow.
      if (dateMs === newestMs) dateMs++
      log.penaltyMs = dateMs
      log.penalty = penalty
    } else {
      add(log, dateMs, units)
      if (log.penalty && log.penalty.untilMs <= now) log.penalty = undefined
    }
    if (isTrimmed(held, total, units) || log.penalty) trim(log, now - keptMs)

    const epochMs = wholeSeconds(2 * keptMs) - keptMs
    const epoch = Math.floor(dateMs / epochMs)
    const isRenewed = penalty || log.keptMs !== keptMs || epoch !== Math.floor(newestMs / epochMs)
    log.keptMs = keptMs
    if (!isRenewed) return { state: log }
    const endMs = Math.max((epoch + 1) * epochMs + keptMs, log.penalty?.untilMs ?? 0)
    return { state: log, ttlMs: wholeSeconds(endMs - now) }
  },
}

/** Rounds milliseconds up to whole seconds, as `EXPIRE` takes them. */
export function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1000) * 1000
}

export function longestWindowMs({ limits }: Pick<StoreCharge, 'limits'>): number {
  let longestMs = 0
  for (const { windowMs } of limits) longestMs = Math.max(longestMs, windowMs)
  return longestMs
}

/** Date of the newest entry; 0 if there is none. */
function findNewestMs({ dates, penaltyMs }: SlidingWindowState): number {
  return dates.length > 0 ? Math.max(dates[dates.length - 1] as number, penaltyMs) : penaltyMs
}

function createUsage(
  log: SlidingWindowState,
  { limit, windowMs }: Limit,
  now: number,
  wanted: number,
): MutableLimitState {
  const { dates, totals } = log
  const total = totalAt(log, totals.length - 1)
  const first = firstAbove(dates, log.head, now - windowMs)
  const isUnused = first === dates.length
  const used = isUnused ? 0 : total - totalAt(log, first - 1)
  const remaining = Math.max(limit - used, 0)
  const resetMs = isUnused ? windowMs : (dates[first] as number) + windowMs - now
  // Such a cost never fits, and configuration refuses it.
  if (wanted > limit) return { remaining, resetMs, retryAfterMs: windowMs }
  if (remaining >= wanted) return { remaining, resetMs, retryAfterMs: 0 }
  // Once the entry with this running total has left the window, enough units are free.
  const freeing = firstAbove(totals, first, total + wanted - limit - 1)
  return { remaining, resetMs, retryAfterMs: (dates[freeing] as number) + windowMs - now }
}

const NOTHING = emptyLog()

export function emptyLog(): SlidingWindowState {
  return { dates: [], totals: [], before: 0, head: 0, keptMs: 0, penalty: undefined, penaltyMs: 0 }
}

/** Index of the first of ascending numbers, from an index on, that is above a bound; their length if none is. */
function firstAbove(numbers: readonly number[], from: number, bound: number): number {
  // Most windows begin with the oldest entry, or hold none.
  if (from < numbers.length && (numbers[from] as number) > bound) return from
  let low = from
  let high = numbers.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((numbers[middle] as number) > bound) high = middle
    else low = middle + 1
  }
  return low
}

/** All units ever admitted up to an entry; index -1 stands for those before the first. */
function totalAt({ totals, before }: SlidingWindowState, index: number): number {
  return index < 0 ? before : (totals[index] as number)
}

function add(log: SlidingWindowState, dateMs: number, units: number): void {
  const { dates, totals } = log
  const last = dates.length - 1
  const total = totalAt(log, last) + units
  if (dateMs === dates[last]) totals[last] = total
  else {
    dates.push(dateMs)
    totals.push(total)
  }
}

/** Drops entries dated `since` or earlier. */
export function trim(log: SlidingWindowState, since: number): void {
  const { dates, totals } = log
  if (log.keepsAll) return
  // The newest entry stays, unless a penalty is newer.
  while ((dates[log.head] as number) <= since) log.head++
  const { head } = log
  if (head < BULK || head * 2 < dates.length) return
  log.before = totals[head - 1] as number
  dates.splice(0, head)
  totals.splice(0, head)
  log.head = 0
}

/**
 * Twin of `lua/sorted-set.lua`, which decides like `sliding-window` and differs only in how Redis stores it.
 */

export const sortedSet: Algorithm<SlidingWindowState> = {
  peek: slidingWindow.peek,

  commit(log = emptyLog(), charge, nowUs, units, leaseMs, penalty = log.penalty) {
    const now = Math.floor(nowUs / 1000)
    const keptMs = longestWindowMs(charge)
    const state = units > 0 ? slidingWindow.commit(log, charge, nowUs, units, leaseMs).state : log
    // Unlike a stream, a sorted set is trimmed at each admission.
    if (units > 0) trim(state, now - keptMs)
    // A member of its own, which stays until another replaces it or the key expires.
    state.penalty = penalty
    const endMs = Math.max(findNewestMs(state) + keptMs, penalty?.untilMs ?? 0)
    return { state, ttlMs: wholeSeconds(endMs - now) }
  },
}
