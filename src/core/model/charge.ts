/** A charge, a decision over charges, and the key of a charge. */
import type { AlgorithmName, Counts, Limit, PenaltySettings } from './limits.ts'
import type { Policy, PolicyMode, RequestPolicy } from './policy.ts'

/** A charge as stores see it: it is counted under one key. */
export interface StoreCharge {
  /** Full name of the state, made by `formatKey`; no two charges of a request share one. */
  readonly key: string
  readonly algorithm: AlgorithmName
  readonly limits: readonly Limit[]
  /** Units that one permit costs, an integer from 1, at most the smallest limit. */
  readonly cost: number
  /** A charge in shadow mode is counted if it fits, but refuses nothing. */
  readonly mode: PolicyMode
  /** Units of its one limit that this request must leave to higher priorities. */
  readonly reserved: number
  /** `token-bucket`: units that the bucket holds, if that is not its limit. */
  readonly burst?: number
  /** `concurrency`: the number of the request's slot, which no other request has. */
  readonly slot?: number
  /** `requests` is the default. Everything that is charged later is `failures` here: charged only by the action `record`. */
  readonly counts?: Counts
  /** Name of these limits, such as a plan, if one identity may come with several. They share its state. */
  readonly plan?: string
  /** Never set for algorithms that hold slots; without effect in shadow mode. */
  readonly penalty?: PenaltySettings
  /** The charge may be corrected later. */
  readonly needsSettlement?: boolean
}

/** A charge of one policy for one identity: the same object from the request to the store and to the response. */
export interface Charge<P extends Policy = Policy> extends StoreCharge {
  readonly policy: P
  /** Stands for the identity: 128 bits in base64url. Of the library in memory, mostly the identity itself. */
  readonly digest: string
  /** The pattern that matched, as `METHOD /path`; undefined if the policy applies everywhere. */
  readonly route?: string | undefined
  /** Set by a rule: it is counted, but refuses nothing, and is not reported. */
  readonly isUnlimited?: boolean
}

export type RequestCharge = Charge<RequestPolicy>

/** Each action of a decision, and its effects. */
export const ACTIONS = {
  /** It grants every permit or none. */
  take: { charges: true, mayRefuse: true, grantsPart: false },
  /** It grants as many permits as fit. */
  'take-up-to': { charges: true, mayRefuse: true, grantsPart: true },
  /** It decides like `take`, and charges nothing. */
  peek: { charges: false, mayRefuse: true, grantsPart: false },
  /** It grants and charges all, even if less remains: it counts units that are used already. */
  record: { charges: true, mayRefuse: false, grantsPart: false },
} as const satisfies Readonly<
  Record<string, { readonly charges: boolean; readonly mayRefuse: boolean; readonly grantsPart: boolean }>
>

export interface DecisionRequest<C extends StoreCharge = StoreCharge> {
  readonly action: keyof typeof ACTIONS
  /** Requested permits, an integer from 1. */
  readonly permits: number
  /**
   * The time for which the permits may be used after the decision: less than half of the shortest window, and never after
   * a counted window (`fixed-window`, `quota`) has ended. The others count them as if used at its end, a bucket by
   * forfeiting its refill meanwhile. If omitted, permits are used at once.
   */
  readonly leaseMs?: number
  readonly charges: readonly C[]
}

/** One limit of a charge after the decision. */
export interface LimitState {
  /** Remaining units, reserved ones included. */
  readonly remaining: number
  /** Time until more than `remaining` can be used. */
  readonly resetMs: number
  /** Time until the cost fits, told in whole milliseconds, for `take-up-to` that of one permit; 0 if it does. For `record`, as it was before. */
  readonly retryAfterMs: number
  /** Time until the penalty of this charge ends, if there is one. `retryAfterMs` is then at least as long. */
  readonly penaltyMs?: number
}

export interface Decision {
  /** Permits granted, 0 to the requested number. */
  readonly granted: number
  /** The store's clock at the decision, milliseconds since the Unix epoch. */
  readonly nowMs: number
  /** Per charge, in order, its limits, in order; empty for a charge that was skipped. */
  readonly usage: readonly (readonly LimitState[])[]
  /** It is refused because of units that others have prepared and may release at any time, before its retry-after time. */
  readonly isProvisional?: true
}

/** Names limits whose statuses must be told apart, although they share a state: by version and by plan. */
export function formatPlanName(edition: string | undefined, plan: string | undefined): string | undefined {
  return edition === undefined || plan === undefined ? (edition ?? plan) : `${edition} ${plan}`
}

/** @param keyPrefix up to 64 characters, the same for all keys of a limiter */
export function formatKey(keyPrefix: string, policy: string, letter: string, digest: string): string {
  return `${keyPrefix}:${policy}:${letter}:{${digest}}`
}
