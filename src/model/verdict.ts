import type { Decided } from '../engine/decider.ts'
import type { Failures } from '../engine/failures.ts'
import type { Hold } from '../engine/hold.ts'
import type { Blocked } from '../engine/orders.ts'
import type { Settlement } from '../engine/settlement.ts'
import type { NoRule } from '../request/rule-maker.ts'
import type { TierUsage } from './charge.ts'
import type { PolicyTier, RequestPolicy } from './policy.ts'

/** How one tier of one policy stands after the decision. */
export interface TierReport extends PolicyTier, TierUsage {
  readonly policy: RequestPolicy
  /** The cost would fit if nothing were reserved for more important requests. */
  readonly isReserve: boolean
}

/** What happens to a request. A refusal is data: the gateway makes a response of it. */
export type Verdict = Outcome & {
  /** How it was decided without the store: `local`, `open`, `closed` or `local, open`. */
  readonly degraded?: Decided['degraded']
}

type Outcome =
  | {
      readonly kind: 'admitted'
      /** Empty if no policy applies, or if the store is away and all that do are then `open`. */
      readonly tiers: readonly TierReport[]
      /** Slots to give back when the exchange has ended. */
      readonly hold?: Hold
      /** To be told what the request really cost. */
      readonly settlement?: Settlement
      /** To be told what the response was. */
      readonly failures?: Failures
    }
  | {
      readonly kind: 'limited'
      readonly tiers: readonly TierReport[]
      /** The tiers that refused: at least one. */
      readonly violated: readonly TierReport[]
      /** Milliseconds after which the same request will be admitted if nobody else spends; at least 1. */
      readonly retryAfterMs: number
    }
  /** What is left is reserved for more important requests. */
  | { readonly kind: 'reserved'; readonly tiers: readonly TierReport[]; readonly retryAfterMs: number }
  /** The upstream is overloaded, and this request is not among the most important. */
  | { readonly kind: 'shed'; readonly retryAfterMs: number }
  /** Nobody can say what is to be charged. */
  | Exclude<NoRule, { kind: 'skip' }>
  /** The API may read its path as another one, to which other policies apply. */
  | { readonly kind: 'ambiguous' }
  /** Operators have ruled so. */
  | Blocked
  /** The store is away, and a policy is then `closed`. */
  | { readonly kind: 'unavailable' }
