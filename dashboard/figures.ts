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
): { readonly moments: number[]; readonly values: number[] } {
  const known = new Map(periods.map((period) => [period.startMs, toNumber(period)]))
  const moments: number[] = []
  const values: number[] = []
  const endMs = resolution === 'minute' ? toMs - periodMs : toMs
  for (let at = fromMs; at < endMs; at += periodMs) {
    moments.push(at)
    values.push(known.get(at) ?? 0)
  }
  return { moments, values }
}

/** Finds the last period in which something was counted. */
export function findLast({ periods }: Counted, count: (numbers: Numbers) => number): number | undefined {
  return periods.findLast((period) => count(period) > 0)?.startMs
}

/** Refusals of one policy, or of one outcome that is no policy's. */
export interface RefusalCount {
  readonly name: string
  readonly count: (numbers: Numbers) => number
}

/** Colors of the chart, less one for all that is left. */
const MAX_NAMED = 5

/** Lists what has refused requests, the most first; in the end all others together. */
export function listRefusals({ total }: Counted): readonly RefusalCount[] {
  const ofPolicies = [...new Set(total.policies.map(({ policy }) => policy))].map((name) => ({
    name,
    count: ({ policies }: Numbers) =>
      policies
        .filter(({ policy }) => policy === name)
        .reduce((sum, { requests }) => sum + requests.limited + requests.deprioritized, 0),
  }))
  const ofOutcomes = [
    { name: 'blocked by a rule', count: ({ requests }: Numbers) => requests.blocked },
    { name: 'shed (503)', count: ({ requests }: Numbers) => requests.shed },
    { name: 'no identity (401)', count: ({ requests }: Numbers) => requests.unidentified },
    { name: 'bad request (400)', count: ({ requests }: Numbers) => requests.bad_request },
    { name: 'unavailable (503)', count: ({ requests }: Numbers) => requests.unavailable },
    { name: 'gateway failed (500)', count: ({ requests }: Numbers) => requests.failed },
  ]
  const found = [...ofPolicies, ...ofOutcomes]
    .filter(({ count }) => count(total) > 0)
    .toSorted((a, b) => b.count(total) - a.count(total))
  const rest = found.slice(MAX_NAMED)
  if (rest.length === 0) return found
  const count = (numbers: Numbers) => rest.reduce((sum, each) => sum + each.count(numbers), 0)
  return [...found.slice(0, MAX_NAMED), { name: `${rest.length} others`, count }]
}
