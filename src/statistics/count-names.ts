/**
 * Under which names counts are kept. They are as few as there are policies, patterns and outcomes: nothing of a request is
 * in them. A pattern may hold spaces, so it comes last.
 */

import type { MirrorCounts } from '../engine/mirror.ts'
import type { Differs } from '../engine/rules-engine.ts'
import { type Degradation, OUTCOMES, type Outcome, type PolicyOutcome } from './outcomes.ts'

/** The pattern of a policy that applies everywhere. */
export const EVERYWHERE = '*'

export const COUNT_NAMES = {
  requests: Object.fromEntries(OUTCOMES.map((outcome) => [outcome, `requests ${outcome}`])) as Record<Outcome, string>,
  degraded: (how: Degradation) => `degraded ${how}`,
  /** Answers of the API, or in its place, with a status from 500. */
  upstream5xx: 'upstream_5xx',
  policy: (policy: string, outcome: PolicyOutcome, route: string) => `policy ${policy} ${outcome} ${route}`,
  /** Requests that a tier has refused, or would have. */
  tier: (tier: string) => `tier ${tier}`,
  /** Requests that policies in shadow have decided as well, by who has refused them. */
  shadow: (differs: Differs) => `shadow ${differs}`,
  storeCalls: 'store calls',
  storeFailures: 'store failures',
  latency: (bucket: number) => `store latency ${bucket}`,
  latencyMs: 'store latency_ms',
  savedByDenyCache: 'saved deny_cache',
  /** Each of them has spent a permit. */
  savedByLeases: 'saved leases',
  permitsLeased: 'leases permits',
  shadowStore: (name: keyof MirrorCounts) => `shadow_store ${name}`,
} as const

export const SHADOW_STORE_COUNTS = [
  'decisions',
  'refusedByShadowOnly',
  'refusedByStoreOnly',
  'failures',
] as const satisfies readonly (keyof MirrorCounts)[]

/** Name of the sketch of callers: `<policy>:<digest>` by how many of their requests were refused. */
export const REFUSED_CALLERS = 'refused'
