import type { AlgorithmName, Counts, Limit, PenaltySettings } from './limits.ts'

/** While the store gives no answer: exact limits of this isolate alone, no limits, or no admission. */
export const ON_STORE_ERROR = ['local', 'open', 'closed'] as const
export type OnStoreError = (typeof ON_STORE_ERROR)[number]

/** Classes of requests, by what is lost if one is refused; the most important first. */
export const PRIORITIES = ['critical', 'default', 'sheddable'] as const
export type Priority = (typeof PRIORITIES)[number]

/** What a request says about one thing that tells callers apart. */
export type Reading =
  | { readonly kind: 'value'; readonly value: string }
  | { readonly kind: 'none' }
  /** Present, but APIs may differ about what it says. Spoiling a value must not get a caller out of a policy. */
  | { readonly kind: 'spoilt' }

/** One thing that tells requests apart. */
export type IdentitySource =
  | { readonly kind: 'token' | 'ip' | 'route' | 'global' }
  | { readonly kind: 'header' | 'query' | 'form' | 'cookie'; readonly name: string }
  /** `name` is the pointer as it was written. */
  | { readonly kind: 'json'; readonly name: string; readonly path: readonly string[] }
  /** Of a verified token. `name` is the name of the claim or, for a claim within others, the pointer to it. */
  | { readonly kind: 'claim'; readonly name: string; readonly path: readonly string[] }
  /** A function of the application says who it is. */
  | { readonly kind: 'application'; readonly tell: (context: never) => Promise<Reading> }

/** Which requests a policy or an exemption is about. */
export interface Pattern {
  /** In capitals; `*` for every method. */
  readonly method: string
  /**
   * Canonical, with `:name` for one segment and `*` for one or, at the end, any number of segments; `.*` after the last
   * segment is for a suffix or none.
   */
  readonly path: string
}

export interface PolicyLimit extends Limit {
  /** Unique, `<policy>-<window>`, e.g. `default-1m`; for `concurrency`, which has no window, the policy's own. */
  readonly name: string
}

/** What a request costs in units, integers from 1, at most the smallest limit. */
export type Cost =
  | { readonly kind: 'fixed'; readonly units: number }
  /** As a request header says, 1 without it. */
  | { readonly kind: 'header'; readonly name: string; readonly max: number }
  /** A function of the application says it, which is given the maximum. */
  | {
      readonly kind: 'application'
      readonly tell: (context: never, max: number) => Promise<number>
      readonly max: number
    }

/** What happens to a caller that lacks what a policy counts by. */
export type MissingIdentity =
  | { readonly kind: 'ip' }
  /** The policy does not apply. */
  | { readonly kind: 'skip' }
  | { readonly kind: 'deny'; readonly status: number }

/** Limits that differ by the plan that a caller is on. */
export interface Plans {
  /** Who says which plan that is. */
  readonly source: IdentitySource
  /** The plan of callers who are on none of these. */
  readonly byDefault: string
  /** By plan; all have the same windows. */
  readonly limits: Readonly<Record<string, Pick<Policy, 'tiers' | 'burst'>>>
}

/** A named set of limits, of whatever is counted. */
export interface Policy {
  /** Unique; part of Redis keys and of response fields. */
  readonly name: string
  readonly algorithm: AlgorithmName
  /** Ordered by window; none if the policy only gives a priority. */
  readonly tiers: readonly PolicyLimit[]
  /** `token-bucket`: units that the bucket holds. */
  readonly burst: number | undefined
  /** What happens to who is refused; undefined: nothing more. */
  readonly block: PenaltySettings | undefined
  /** False in shadow mode: it decides and reports, but refuses nothing. */
  readonly enforced: boolean
  readonly onStoreError: OnStoreError
}

/** A policy about requests: what it counts them by, and where it applies. */
export interface RequestPolicy extends Policy {
  /** What makes two requests the same caller's: the same value of each of these. */
  readonly by: readonly IdentitySource[]
  /** Spellings of one value that are the same: `lower`, `trim` or both; undefined: none. */
  readonly fold: string | undefined
  /** Where it applies; undefined: everywhere. */
  readonly match: readonly Pattern[] | undefined
  /** Whether its patterns match whatever the case of the path. */
  readonly ignoresCase: boolean
  readonly cost: Cost
  readonly missing: MissingIdentity
  /** Limits by plan; `tiers` and `burst` are then those of the default plan. */
  readonly plans: Plans | undefined
  /** Class of the requests that it matches. */
  readonly priority: Priority | undefined
  /** Units of its one tier that a request of each class must leave to those above it. */
  readonly reserved: Readonly<Record<Priority, number>>
  /** Response header in which the upstream tells the actual cost. */
  readonly settleHeader: string | undefined
  readonly onStoreError: OnStoreError
  /**
   * All requests, only those that bring an identity which no `sliding-window` policy has met lately, or only those that
   * fail, by the status of their response.
   */
  readonly counts: Counts
  /** If it counts failures, the statuses that are failures; else empty. */
  readonly failures: readonly number[]
}
