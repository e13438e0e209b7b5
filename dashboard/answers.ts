/** What the API answers. */
import type { TierState } from '../src/request/caller/usage-of-rules.ts'

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
  readonly tiers: readonly TierState[]
  readonly leftOut: readonly { readonly policy: string; readonly why: string }[]
}

export interface Forgotten {
  readonly keys: readonly { readonly policy: string; readonly key: string }[]
}

export interface PolicyInForce {
  readonly name: string
  readonly algorithm: string
  readonly tiers: readonly { readonly name: string; readonly limit: number; readonly windowMs: number }[]
  readonly by: readonly string[]
  readonly match: readonly string[] | null
  readonly mode: 'enforce' | 'shadow'
}
