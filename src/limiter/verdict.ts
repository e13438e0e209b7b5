import type { Policy, PolicyTier } from '../policy/policy.ts'
import type { TierUsage } from '../store/store.ts'

/** How one tier of one policy stands after the decision. */
export interface TierReport extends PolicyTier, TierUsage {
  readonly policy: Policy
}

/** What becomes of a request. A refusal is data: the gateway makes the response of it. */
export type Verdict =
  | {
      readonly kind: 'admitted'
      /** Empty if no policy applies, or if the store is away and `ON_STORE_ERROR` is `open`. */
      readonly tiers: readonly TierReport[]
    }
  | {
      readonly kind: 'limited'
      readonly tiers: readonly TierReport[]
      /** The tiers that refused: at least one. */
      readonly violated: readonly TierReport[]
      /** Milliseconds after which the same request will be admitted if nobody else spends; at least 1. */
      readonly retryAfterMs: number
    }
  /** No Authorization where one is needed. */
  | { readonly kind: 'unidentified' }
  /** The store is away, and `ON_STORE_ERROR` is `closed`. */
  | { readonly kind: 'unavailable' }
