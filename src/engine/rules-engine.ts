import type { CallContext } from '../runtime/call-context.ts'
import type { DocumentStore, VersionId } from '../store/documents.ts'
import type { Limiter } from './limiter.ts'

/** How policies that decide beside those in force compare with them. */
export interface CandidateCounts {
  /** Requests that both have decided. */
  readonly requests: number
  readonly refusedByBoth: number
  readonly refusedByShadowOnly: number
  readonly refusedByForceOnly: number
}

/** Is told of each request that both have decided. */
export type WatchCandidates = (differs: Comparison, context: Pick<CallContext, 'waitUntil'>) => void

/** Who has refused a request. */
export type Comparison = 'neither' | 'both' | 'shadowOnly' | 'forceOnly'

/** What an isolate knows of the rules; the version is that of those in force here, 0 if there are none. */
export interface RulesState extends VersionId {
  /** When they were last read, or found unchanged; undefined: never. */
  readonly readAtMs: number | undefined
  /** Why a newer version is not in force. */
  readonly problem: string | undefined
  /** Undefined: no policies are in shadow. */
  readonly shadow: CandidateCounts | undefined
}

/** Limits that operators change without a deploy. */
export interface RulesEngine extends Pick<Limiter, 'decide' | 'findCharges' | 'charge'> {
  /** Where the rules are. */
  readonly documents: DocumentStore
  /** Where changes that concern single callers are recorded. */
  readonly journal: DocumentStore
  readonly state: () => RulesState
}
