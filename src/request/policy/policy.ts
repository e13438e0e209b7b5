import type { OnStoreError } from '../../decide/decider.ts'
import type { AlgorithmName } from '../../limit/algorithm-table.ts'
import type { Block, Counts, Tier } from '../../limit/rule.ts'
import type { Source } from '../identity/source.ts'
import type { Pattern } from './pattern.ts'
import type { Priority } from './priority.ts'

export interface PolicyTier extends Tier {
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
export type Missing =
  | { readonly kind: 'ip' }
  /** The policy does not apply. */
  | { readonly kind: 'skip' }
  | { readonly kind: 'deny'; readonly status: number }

/** Limits that differ by the plan that a caller is on. */
export interface Plans {
  /** Who says which plan that is. */
  readonly source: Source
  /** The plan of callers who are on none of these. */
  readonly byDefault: string
  /** By plan; all have the same windows. */
  readonly limits: Readonly<Record<string, Pick<Policy, 'tiers' | 'burst'>>>
}

/** A set of tiers, what it counts by and where it applies. */
export interface Policy {
  /** Unique; part of Redis keys and of response fields. */
  readonly name: string
  readonly algorithm: AlgorithmName
  /** Ordered by window; none if the policy only gives a priority. */
  readonly tiers: readonly PolicyTier[]
  /** What makes two requests the same caller's: the same value of each of these. */
  readonly by: readonly Source[]
  /** Spellings of one value that are the same: `lower`, `trim` or both; undefined: none. */
  readonly fold: string | undefined
  /** Where it applies; undefined: everywhere. */
  readonly match: readonly Pattern[] | undefined
  /** Whether its patterns match whatever the case of the path. */
  readonly ignoresCase: boolean
  readonly cost: Cost
  readonly missing: Missing
  /** `token-bucket`: units that the bucket holds. */
  readonly burst: number | undefined
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
  /** What happens to who is refused; undefined: nothing more. */
  readonly block: Block | undefined
  /** False in shadow mode: it decides and reports, but refuses nothing. */
  readonly enforced: boolean
}
