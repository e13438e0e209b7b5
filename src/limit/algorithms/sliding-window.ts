/**
 * Twin of `lua/sliding-window.lua`: an exact log of what was admitted, read as prefix sums.
 */

import type { Algorithm } from '../algorithm.ts'
import type { Rule, Tier, TierUsage } from '../rule.ts'
import { tierUsage, toPeek } from './tier-usage.ts'

interface Entry {
  readonly ms: number
  /** All that was ever admitted, this entry included. */
  readonly total: number
  readonly cost: number
  /** The longest window it is kept for. */
  readonly keptMs: number
}

export interface SlidingWindowState {
  readonly entries: Entry[]
  /** Index of the first entry that is still kept: those before are dropped in bulk, so that each is moved once. */
  head: number
}

export const slidingWindow: Algorithm<SlidingWindowState> = {
  peek(log = empty(), rule, nowUs, wanted) {
    const now = Math.floor(nowUs / 1000)
    return toPeek(rule.tiers.map((tier) => usageOf(log, tier, now, wanted)))
  },

  commit(log = empty(), rule, nowUs, units, leaseMs = 0) {
    const now = Math.floor(nowUs / 1000)
    const keptMs = longestWindowMs(rule)
    const last = log.entries.at(-1)
    const entry = {
      // Rounded up, so that it stays its whole window. Time never goes back: if the clock did, entries stay longer.
      ms: Math.max(Math.ceil(nowUs / 1000) + leaseMs, last?.ms ?? 0),
      total: (last?.total ?? 0) + units,
      cost: units,
      keptMs,
    }
    log.entries.push(entry)
    trim(log, now - keptMs)

    const epochMs = wholeSeconds(2 * keptMs) - keptMs
    const epoch = Math.floor(entry.ms / epochMs)
    const isRenewed = last?.keptMs !== keptMs || epoch !== Math.floor(last.ms / epochMs)
    return isRenewed ? { state: log, ttlMs: wholeSeconds((epoch + 1) * epochMs + keptMs - now) } : { state: log }
  },
}

/** Rounds milliseconds up to whole seconds, as `EXPIRE` takes them. */
export function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1000) * 1000
}

export function longestWindowMs({ tiers }: Rule): number {
  return Math.max(...tiers.map(({ windowMs }) => windowMs))
}

function usageOf(log: SlidingWindowState, tier: Tier, now: number, wanted: number): TierUsage {
  const { windowMs } = tier
  const last = log.entries.at(-1)
  const first = log.entries[firstIndex(log, (entry) => entry.ms > now - windowMs)]
  const used = first && last ? last.total - first.total + first.cost : 0
  const resetMs = first ? first.ms + windowMs - now : windowMs
  const freedAfterMs = (units: number) => {
    const target = (last?.total ?? 0) - used + units
    const freeing = log.entries[firstIndex(log, (entry) => entry.total >= target)]
    return (freeing?.ms ?? now) + windowMs - now
  }
  return tierUsage({ ...tier, used, resetMs, freedAfterMs }, wanted)
}

function empty(): SlidingWindowState {
  return { entries: [], head: 0 }
}

/** Index of the first entry that meets a condition which, once true, stays true; the log's length if none does. */
function firstIndex({ entries, head }: SlidingWindowState, holds: (entry: Entry) => boolean): number {
  let low = head
  let high = entries.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (holds(entries[middle] as Entry)) high = middle
    else low = middle + 1
  }
  return low
}

function trim(log: SlidingWindowState, since: number): void {
  log.head = firstIndex(log, (entry) => entry.ms > since)
  if (log.head * 2 < log.entries.length) return
  log.entries.splice(0, log.head)
  log.head = 0
}
