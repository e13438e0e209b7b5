import type { MirrorCounts } from '../engine/mirror.ts'
import type { Differs, ShadowCounts } from '../engine/rules-engine.ts'
import type { Counts } from '../store/counters.ts'
import { COUNT_NAMES, SHADOW_STORE_COUNTS } from './count-names.ts'
import { LATENCY_BOUNDS_MS, type LatencyHistogram } from './latency.ts'
import {
  DEGRADATIONS,
  type Degradation,
  OUTCOMES,
  type Outcome,
  POLICY_OUTCOMES,
  type PolicyOutcome,
} from './outcomes.ts'

/** What was counted in some time. */
export interface Numbers {
  /** Each request once. */
  readonly requests: Readonly<Record<Outcome, number>>
  /** Of these, those that were decided without the store. */
  readonly degraded: Readonly<Record<Degradation, number>>
  /** Of those admitted, the ones answered with a status from 500, by the API or because it could not be reached. */
  readonly upstream5xx: number
  /** By policy, then by pattern; a request counts in each policy that applies to it. */
  readonly policies: readonly PolicyNumbers[]
  /** Requests that a tier has refused, or would have in shadow mode, the most first. */
  readonly tiers: readonly { readonly tier: string; readonly limited: number }[]
  /** Requests that policies in shadow have decided beside those in force. */
  readonly shadow: ShadowCounts
  readonly store: {
    /** Decisions that the store was asked for. */
    readonly calls: number
    /** Those of them that got no usable answer. */
    readonly failures: number
    /** Of those that were answered. */
    readonly latency: LatencyHistogram
  }
  /** Decisions that the store was not asked for. */
  readonly saved: { readonly denyCache: number; readonly leases: number }
  readonly leases: {
    /** Permits taken in advance. */
    readonly permits: number
    /** Those that were not spent; of the last few seconds, some may still be. */
    readonly lapsed: number
  }
  /** Of the store that is charged beside, with STORE_SHADOW. */
  readonly shadowStore: MirrorCounts
}

export interface PolicyNumbers {
  readonly policy: string
  /** The policy's own pattern, `METHOD /path`; `*` if it applies everywhere. */
  readonly route: string
  readonly requests: Readonly<Record<PolicyOutcome, number>>
}

/** What counts say. Names of a version that is not this one are passed over. */
export function numbersOf(counts: Counts): Numbers {
  const of = (name: string) => counts.get(name) ?? 0
  const spent = of(COUNT_NAMES.savedByLeases)
  const permits = of(COUNT_NAMES.permitsLeased)
  return {
    requests: record(OUTCOMES, (outcome) => of(COUNT_NAMES.requests[outcome])),
    degraded: record(DEGRADATIONS, (how) => of(COUNT_NAMES.degraded(how))),
    upstream5xx: of(COUNT_NAMES.upstream5xx),
    policies: policiesOf(counts),
    tiers: tiersOf(counts),
    shadow: shadowOf((differs) => of(COUNT_NAMES.shadow(differs))),
    store: {
      calls: of(COUNT_NAMES.storeCalls),
      failures: of(COUNT_NAMES.storeFailures),
      latency: {
        counts: Array.from({ length: LATENCY_BOUNDS_MS.length + 1 }, (_, bucket) => of(COUNT_NAMES.latency(bucket))),
        sumMs: of(COUNT_NAMES.latencyMs),
      },
    },
    saved: { denyCache: of(COUNT_NAMES.savedByDenyCache), leases: spent },
    // Those taken in one minute may be spent in the next.
    leases: { permits, lapsed: Math.max(0, permits - spent) },
    shadowStore: record(SHADOW_STORE_COUNTS, (name) => of(COUNT_NAMES.shadowStore(name))),
  }
}

/** The sums of several counts. */
export function sumCounts(all: Iterable<Counts>): Counts {
  const sums = new Map<string, number>()
  for (const counts of all) for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count)
  return sums
}

function policiesOf(counts: Counts): PolicyNumbers[] {
  const rows = new Map<string, { policy: string; route: string; requests: Record<PolicyOutcome, number> }>()
  for (const [name, count] of counts) {
    const [, policy = '', outcome, route = ''] = /^policy ([\w-]+) (\w+) (.+)$/.exec(name) ?? []
    if (!isPolicyOutcome(outcome)) continue
    let row = rows.get(`${policy} ${route}`)
    if (!row) {
      row = { policy, route, requests: record(POLICY_OUTCOMES, () => 0) }
      rows.set(`${policy} ${route}`, row)
    }
    row.requests[outcome] += count
  }
  return [...rows.values()].sort((a, b) => compare(a.policy, b.policy) || compare(a.route, b.route))
}

function shadowOf(of: (differs: Differs) => number): ShadowCounts {
  const [refusedByBoth, refusedByShadowOnly, refusedByForceOnly] = [of('both'), of('shadowOnly'), of('forceOnly')]
  const requests = of('neither') + refusedByBoth + refusedByShadowOnly + refusedByForceOnly
  return { requests, refusedByBoth, refusedByShadowOnly, refusedByForceOnly }
}

function tiersOf(counts: Counts): { tier: string; limited: number }[] {
  return [...counts]
    .filter(([name]) => name.startsWith(COUNT_NAMES.tier('')))
    .map(([name, limited]) => ({ tier: name.slice(COUNT_NAMES.tier('').length), limited }))
    .sort((a, b) => b.limited - a.limited || compare(a.tier, b.tier))
}

function isPolicyOutcome(text: string | undefined): text is PolicyOutcome {
  return (POLICY_OUTCOMES as readonly (string | undefined)[]).includes(text)
}

function record<Key extends string>(keys: readonly Key[], numberOf: (key: Key) => number): Record<Key, number> {
  return Object.fromEntries(keys.map((key) => [key, numberOf(key)])) as Record<Key, number>
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}
