/** A policy, and a policy for requests. */
import { listNames } from '../runtime/lists.ts'
import type { CostTerm, Untold } from './cost.ts'
import type { IdentitySource } from './identity-source.ts'
import type { AlgorithmName, Counts, Limit, PenaltySettings } from './limits.ts'

/** Fallbacks while the store is unavailable: exact limits of this isolate alone, no limits, or no admission. */
export const ON_STORE_ERROR = ['local', 'open', 'closed'] as const
export type OnStoreError = (typeof ON_STORE_ERROR)[number]

/** The most important first. */
export const PRIORITIES = ['critical', 'default', 'sheddable'] as const
export type Priority = (typeof PRIORITIES)[number]

/** `shadow` decides, counts and reports, but refuses nothing. */
const MODES = {
  enforce: { refuses: true },
  shadow: { refuses: false },
} as const satisfies Readonly<Record<string, { readonly refuses: boolean }>>

export type PolicyMode = keyof typeof MODES
export const POLICY_MODES = listNames(MODES)

/** Everything that depends on a mode asks this. */
export function isEnforced({ mode }: { readonly mode: PolicyMode }): boolean {
  return MODES[mode].refuses
}

/** The mode of a policy under one of all: under one that refuses nothing, no policy does. */
export function joinModes(ofAll: PolicyMode, own: PolicyMode = 'enforce'): PolicyMode {
  return isEnforced({ mode: ofAll }) ? own : ofAll
}

export const ON_DISCONNECT = ['read', 'abort'] as const
export type OnDisconnect = (typeof ON_DISCONNECT)[number]

/** Selects requests for a policy or an exemption. */
export interface Pattern {
  /** Upper case; `*` for every method. */
  readonly method: string
  /**
   * Canonical. `:name` matches one segment, `*` one or, at the end, any number of segments; `.*` after the last segment
   * matches a suffix or none.
   */
  readonly path: string
}

export interface PolicyLimit extends Limit {
  /** Unique, `<policy>-<window>`, e.g. `default-1m`; for `concurrency`, which has no window, the policy's name. */
  readonly name: string
}

/** The cost of a request in units: integers from 1, at most the smallest limit. */
export type Cost =
  | { readonly kind: 'fixed'; readonly units: number }
  /** The value of a request header, 1 without it. */
  | { readonly kind: 'header'; readonly name: string; readonly max: number }
  /** Counts the bytes of the body: the maximum if their number is not known before they have come. */
  | { readonly kind: 'size'; readonly weight: number; readonly max: number }
  /** A function of the application; it receives the maximum. */
  | {
      readonly kind: 'application'
      readonly tell: (context: never, max: number) => Promise<number>
      readonly max: number
    }

/** Handling of a request without what a policy counts by. */
export type MissingIdentity =
  | { readonly kind: 'ip' }
  | { readonly kind: 'skip' }
  | { readonly kind: 'deny'; readonly status: number }

/**
 * Statuses that a refusal for a limit may have. Of others, a client or a crawler would learn something wrong: to log in
 * again (401), to try again at once (408, 425), that there is nothing (404, 410), or that a server failed (500, 502).
 */
export const REFUSAL_STATUSES = [402, 403, 429, 503] as const

/** The status and the texts of a policy's refusals, in place of the standard ones. */
export interface RefusalSettings {
  readonly status?: (typeof REFUSAL_STATUSES)[number] | undefined
  /** URI of the problem. */
  readonly type?: string | undefined
  readonly detail?: string | undefined
  /** Page for clients that prefer HTML to JSON. */
  readonly html?: string | undefined
  /** Absolute URL to which the same clients are redirected. */
  readonly redirect?: string | undefined
}

/** The part of a response that policies read before its body. */
export interface ResponseHead {
  readonly status: number
  readonly headers: Pick<Headers, 'get' | 'has'>
}

/** @param context the argument of the application's own functions */
export type IsFailure = (head: ResponseHead, context: never) => boolean

/** Limits that differ by the plan of a caller. */
export interface Plans {
  /** Names the plan. */
  readonly source: IdentitySource
  /** The plan of callers without one of these. */
  readonly byDefault: string
  /** All plans have the same windows. */
  readonly limits: Readonly<Record<string, Pick<Policy, 'limits' | 'burst'>>>
}

export interface Policy {
  /** Unique; part of Redis keys and of response fields. */
  readonly name: string
  readonly algorithm: AlgorithmName
  /** Ordered by window; none if the policy only gives a priority. */
  readonly limits: readonly PolicyLimit[]
  /** `token-bucket`: units that the bucket holds. */
  readonly burst: number | undefined
  readonly penalty: PenaltySettings | undefined
  readonly mode: PolicyMode
  readonly onStoreError: OnStoreError
}

/** A policy with the requests that it applies to, and the identities that it counts them by. */
export interface RequestPolicy extends Policy {
  /** Requests with the same value of each of these have the same caller. */
  readonly by: readonly IdentitySource[]
  /** Normalization of values: `lower`, `trim` or both; undefined: none. */
  readonly fold: string | undefined
  /** Undefined: it applies everywhere. */
  readonly match: readonly Pattern[] | undefined
  /** True if its patterns ignore the case of the path. */
  readonly ignoresCase: boolean
  readonly cost: Cost
  readonly anonymous: MissingIdentity
  /** If set, `limits` and `burst` are those of the default plan. */
  readonly plans: Plans | undefined
  /** Priority that it gives to the requests that it matches. */
  readonly priority: Priority | undefined
  /** Units of its one limit that a request of each priority must leave to higher ones. */
  readonly reserved: Readonly<Record<Priority, number>>
  /** Sum that a request costs once its response tells; undefined: what it was charged. */
  readonly actualCost: readonly CostTerm[] | undefined
  /** Cost of a request whose response does not tell; undefined if the cost is always known. */
  readonly untold: Untold | undefined
  /** When the client leaves: the rest of the response is read for its cost, or the response is aborted. */
  readonly onDisconnect: OnDisconnect
  /**
   * All requests, or those with an identity that no `sliding-window` policy has seen within its windows; or, after their
   * response, all, those that fail or those that do not.
   */
  readonly counts: Counts
  /** Statuses of responses that fail, or a function of the application; empty unless it tells them apart. */
  readonly failures: readonly number[] | IsFailure
  readonly refusal: RefusalSettings | undefined
}
