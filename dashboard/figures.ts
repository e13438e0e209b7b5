/** What is worked out of what was counted. */
import type { Counted, Numbers } from './answers.ts'

/** Requests that were not admitted. */
export function sumRefused({ requests }: Pick<Numbers, 'requests'>): number {
  return sumTotal(requests) - requests.admitted
}

export function sumTotal(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0)
}

/** The price of 100,000 commands at Upstash, if they are paid as they are used. */
const DOLLARS = 0.2

/**
 * About what the calls have cost. A call has two commands of its own, and about two for each policy that applies: what
 * it reads, and what it writes.
 */
export function estimateDollars({ store, policies, requests }: Numbers): number {
  const policyRequests = policies.reduce((sum, { requests }) => sum + sumTotal(requests), 0)
  const policiesPerRequest = policyRequests / Math.max(1, sumTotal(requests))
  return (store.calls * (2 + 2 * policiesPerRequest) * DOLLARS) / 100_000
}

/** How long most calls took at most, in words. @param share of them, e.g. 0.99 */
export function readLatency({ total, latencyBoundsMs }: Counted, share: number): string {
  const bound = findQuantileMs(total.store.latency.counts, latencyBoundsMs, share)
  if (bound === undefined) return '–'
  return Number.isFinite(bound) ? `≤ ${bound} ms` : `> ${latencyBoundsMs.at(-1)} ms`
}

/**
 * @param counts of each bucket @param boundsMs of all but the last @param share above 0 and at most 1
 * @returns the bound that this share did not exceed; infinity above the last one; undefined if there are no counts
 */
export function findQuantileMs(
  counts: readonly number[],
  boundsMs: readonly number[],
  share: number,
): number | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return undefined
  let seen = 0
  const index = counts.findIndex((count) => {
    seen += count
    return seen >= share * total
  })
  return boundsMs[index] ?? Number.POSITIVE_INFINITY
}

/** A value for every period, those in which nothing was counted among them; of minutes, only for those that are over. */
export function listOverTime(
  { fromMs, toMs, periodMs, periods, resolution }: Counted,
  toNumber: (numbers: Numbers) => number,
): { readonly seconds: number[]; readonly values: number[] } {
  const known = new Map(periods.map((period) => [period.startMs, toNumber(period)]))
  const seconds: number[] = []
  const values: number[] = []
  const endMs = resolution === 'minute' ? toMs - periodMs : toMs
  for (let at = fromMs; at < endMs; at += periodMs) {
    seconds.push(at / 1000)
    values.push(known.get(at) ?? 0)
  }
  return { seconds, values }
}
