import type { CallContext } from '../runtime/call-context.ts'

/** Compares the candidate policies with the active ones. */
export interface CandidateCounts {
  /** Requests that both decided. */
  readonly requests: number
  readonly refusedByBoth: number
  readonly refusedByCandidateOnly: number
  readonly refusedByActiveOnly: number
}

/** Called for each request that both decided. */
export type WatchCandidates = (comparison: Comparison, context: Pick<CallContext, 'waitUntil'>) => void

/** The policies that refused a request. */
export type Comparison = 'neither' | 'both' | 'candidateOnly' | 'activeOnly'
