import type { RequestPolicy } from '../model/policy.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { DocumentStore, VersionId } from '../store/documents.ts'
import type { RequestLimiter } from './limiter.ts'

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

/** State of the rules in one isolate: the version is the active one, 0 if there is none. */
export interface RulesState extends VersionId {
  /** The last successful read; undefined if there was none. */
  readonly readAtMs: number | undefined
  /** The reason why a newer version is not active. */
  readonly problem: string | undefined
  /** Undefined without candidate policies. */
  readonly candidate: CandidateCounts | undefined
}

/** A limiter whose rules and policies operators change without a deploy. */
export interface RulesEngine extends Pick<RequestLimiter, 'decide' | 'findCharges' | 'charge'> {
  /** Holds the rule set. */
  readonly documents: DocumentStore
  /** Holds the audit log. */
  readonly auditLog: DocumentStore
  readonly state: () => RulesState
  /** Reads the active policies. */
  readPolicies(context: Pick<CallContext, 'waitUntil'>): Promise<readonly RequestPolicy[]>
}
