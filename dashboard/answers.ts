/** What the API answers. */
import type { TierState } from '../src/request/caller/rules-of-caller.ts'
import type { Deed } from '../src/rules/journal.ts'
import type { PolicyChange } from '../src/rules/policy-changes.ts'
import type { RefusedCaller, Statistics } from '../src/statistics/read-statistics.ts'
import type { Refusals } from '../src/statistics/refusals-of.ts'

export interface Status {
  readonly nowMs: number
  readonly version: string
  readonly status: 'ok' | 'degraded'
  readonly store: {
    readonly kind: string
    readonly reachable: boolean | null
    readonly rttMs: number | null
    readonly circuit: 'closed' | 'open' | 'half-open'
  }
  readonly shedLevel: number | null
}

export interface CallerUsage {
  readonly nowMs: number
  /** By the rules; null: it is let in. */
  readonly blocked: { readonly status: number; readonly reason: string | null; readonly untilMs: number | null } | null
  readonly tiers: readonly (TierState & { readonly isUnlimited: boolean })[]
  readonly leftOut: readonly { readonly policy: string; readonly why: string }[]
}

export interface CallerHistory {
  /** Null: nothing is counted. */
  readonly refusals: Refusals | null
  /** The latest first; null: nothing is noted. */
  readonly deeds: readonly Omit<Deed, 'digests'>[] | null
}

export interface Forgotten {
  readonly keys: readonly { readonly policy: string; readonly key: string }[]
}

export interface TierInForce {
  readonly limit: number
  readonly windowMs: number
}

export interface PolicyInForce {
  readonly name: string
  readonly algorithm: string
  readonly tiers: readonly TierInForce[]
  readonly burst: number | null
  readonly plans: Readonly<Record<string, readonly TierInForce[]>> | null
  readonly cost: { readonly units: number | null; readonly header: string | null }
  readonly penalty: { readonly blockMs: number; readonly after: number } | null
  readonly holdsSlots: boolean
  readonly by: readonly string[]
  readonly match: readonly string[] | null
  readonly mode: 'enforce' | 'shadow'
}

export interface Counted extends Omit<Statistics, 'refused'> {
  readonly latencyBoundsMs: readonly number[]
  readonly refused: {
    readonly callers: readonly (RefusedCaller & { readonly isEveryone: boolean })[]
    readonly othersAtMost: number
  }
}

export interface Policies {
  readonly source: 'deploy' | 'rules'
  readonly policies: readonly PolicyInForce[]
  readonly tables: readonly object[]
}

export interface Revision {
  readonly version: number
  readonly id: string
  readonly atMs: number
  readonly by: string
  readonly why: string
}

/** Who is meant by an entry, and until when. */
export interface Entry {
  readonly by?: string
  readonly digest?: string
  readonly value?: string
  readonly cidr?: string
  readonly country?: string
  readonly asn?: number
  readonly reason?: string
  readonly until?: string
  readonly status?: number
  readonly limits?: Readonly<Record<string, string>>
  readonly times?: number
  readonly unlimited?: true
  readonly policies?: readonly string[]
}

export interface RulesNow extends Revision {
  readonly rules: {
    readonly blocks: readonly Entry[]
    readonly allows: readonly Entry[]
    readonly overrides: readonly Entry[]
    readonly policies: readonly object[] | null
    readonly shadow: readonly object[] | null
  }
  readonly isolate: {
    readonly version: number
    readonly id: string
    readonly readAtMs: number | null
    readonly problem: string | null
    readonly shadow: ShadowCounts | null
  }
}

export interface ShadowCounts {
  readonly requests: number
  readonly refusedByBoth: number
  readonly refusedByShadowOnly: number
  readonly refusedByForceOnly: number
}

export interface Edited {
  readonly version: number
  readonly isChanged: boolean
}

/** A block, an allow or an override that was written or taken back. */
export interface Ordered extends Edited {
  /** Whether it holds for all requests of whom it is about, or only for those that policies count by its digest. */
  readonly scope: 'all' | 'counted'
}

export interface Validity {
  readonly isValid: boolean
  readonly problems: readonly { readonly place: string; readonly message: string }[]
}

export interface Differences {
  readonly changes: readonly PolicyChange[]
}
