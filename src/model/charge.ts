import type { AlgorithmName, Counts, Limit, PenaltySettings } from './limits.ts'
import type { Policy, RequestPolicy } from './policy.ts'

/** What a store counts under one key. */
export interface StoreCharge {
  /** Full name of the state, made by `formatKey`; no two rules of a request share one. */
  readonly key: string
  readonly algorithm: AlgorithmName
  readonly tiers: readonly Limit[]
  /** Units that one permit costs, an integer from 1, at most the smallest limit. */
  readonly cost: number
  /** False for a shadow rule: it is charged where it can be, but refuses nothing. */
  readonly enforced: boolean
  /** Units of its one tier that this request must leave to others; 0 for none. */
  readonly reserved: number
  /** `token-bucket`: units that the bucket holds, where it is not its limit. */
  readonly burst?: number
  /** `concurrency`: number under which the request holds its slots; no other request has it. */
  readonly slot?: number
  /**
   * What it counts. All `requests` (the default); new `identities`: it then applies only if a rule before it, of an
   * algorithm that can tell, finds no state; or `failures`: it then refuses like any other, but is charged only in the
   * mode `charge`.
   */
  readonly counts?: Counts
  /**
   * Name of these limits, such as the plan that has them, where one identity may come with several. They share its state.
   */
  readonly plan?: string
  /** What a refusal by this rule leads to; of a shadow rule, nothing. No algorithm that holds slots has it. */
  readonly block?: PenaltySettings
  /** What is charged may be corrected later. */
  readonly isSettled?: boolean
}

/** What one policy counts for one identity: the one object that goes from the request to the store and to the response. */
export interface Charge<P extends Policy = Policy> extends StoreCharge {
  readonly policy: P
  /** Stands for the identity: 128 bits in base64url. */
  readonly digest: string
  /** The pattern of the policy that matched, as `METHOD /path`; left out if it applies everywhere. */
  readonly route?: string | undefined
  /** A rule of the operators says so: it is counted, but refuses nothing, and is not reported. */
  readonly isUnlimited?: boolean
}

/** What a policy about requests charges for one of them. */
export type RequestCharge = Charge<RequestPolicy>

export interface DecisionRequest<R extends StoreCharge = StoreCharge> {
  /**
   * `all` grants every permit or none, `partial` as many as fit, `peek` answers as `all` would and charges nothing. `charge`
   * grants and charges all, whatever is left: it counts what has happened already, so that windows hold the truth.
   */
  readonly mode: 'all' | 'partial' | 'peek' | 'charge'
  /** Permits asked for, an integer from 1. */
  readonly permits: number
  /**
   * How long the permits may be spent after the decision, less than half of the shortest window, and never after a
   * counted window (`fixed-window`, `quota`) has ended. The others count them as if spent when this has passed, a bucket by
   * giving up what it would gain meanwhile. Left out, they are spent at once.
   */
  readonly leaseMs?: number
  readonly rules: readonly R[]
}

/** What a rule says of one of its tiers, after the decision. */
export interface LimitState {
  /** Units left, reserved ones included. */
  readonly remaining: number
  /** Milliseconds until more than `remaining` can be used. */
  readonly resetMs: number
  /**
   * Milliseconds until the asked cost fits (in `partial` mode, that of one permit); 0 if it does now. In `charge` mode, as
   * it was before.
   */
  readonly retryAfterMs: number
  /** Milliseconds until the block of this rule ends; left out if there is none. `retryAfterMs` is then at least as long. */
  readonly blockedMs?: number
}

export interface Decision {
  /** Permits granted, 0 to the number asked for. */
  readonly granted: number
  /** The store's clock at the decision, milliseconds since the Unix epoch. */
  readonly nowMs: number
  /** For each rule, in order, its tiers, in order; none for a rule that was not asked. */
  readonly usage: readonly (readonly LimitState[])[]
  /** It is refused because of units that others have reserved and may give back at any moment, before any time it tells. */
  readonly isProvisional?: true
}

/** The key that a policy counts an identity under. @param keyPrefix up to 64 characters, the same for all keys of a limiter */
export function formatKey(keyPrefix: string, policy: string, letter: string, digest: string): string {
  return `${keyPrefix}:${policy}:${letter}:{${digest}}`
}

/** The digest of the caller in a key, by which logs name it. */
export function callerIn(key: string): string {
  return key.slice(key.lastIndexOf('{') + 1, -1)
}
