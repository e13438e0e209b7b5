import type { CallContext } from '../../core/runtime/call-context.ts'

/** Compares the candidate policies with the active ones, by the requests that both decided. */
export function toCandidateCounts({ neither, both, candidateOnly, activeOnly }: Readonly<Record<Comparison, number>>) {
  const requests = neither + both + candidateOnly + activeOnly
  return { requests, refusedByBoth: both, refusedByCandidateOnly: candidateOnly, refusedByActiveOnly: activeOnly }
}

/** Called for each request that both decided. */
export type WatchCandidates = (comparison: Comparison, context: Pick<CallContext, 'waitUntil'>) => void

/** The policies that refused a request. */
export const COMPARISONS = ['neither', 'both', 'candidateOnly', 'activeOnly'] as const
export type Comparison = (typeof COMPARISONS)[number]
