/**
 * Everything that is counted: the names under which it is stored, how the API answers it, and what Prometheus reads of it.
 * To count one thing more, name it here, say how it is answered, and add it in recorder.ts.
 */
import * as v from 'valibot'
import type { MirrorCounts } from '../engine/mirror.ts'
import type { CandidateCounts, Comparison } from '../engine/rules-engine.ts'
import type { Counts } from '../store/counters.ts'
import { LATENCY_BOUNDS_MS } from './latency.ts'
import { counter, type Family, histogramOfSeconds } from './open-metrics.ts'
import {
  DEGRADATIONS,
  type Degradation,
  OUTCOMES,
  type Outcome,
  POLICY_OUTCOMES,
  type PolicyOutcome,
} from './outcomes.ts'
import { describe, mapNames, units, unitsBy } from './schema.ts'

/** The pattern of a policy that applies everywhere. */
export const EVERYWHERE = '*'

/** Name of the sketch of callers: `<policy>:<digest>` by how many of their requests were refused. */
export const REFUSED_CALLERS = 'refused'

const LATENCY_NAMES = Array.from({ length: LATENCY_BOUNDS_MS.length + 1 }, (_, bucket) => `store latency ${bucket}`)

/**
 * There are only as many names as policies, patterns and outcomes: nothing of a request is in them. A pattern may hold
 * spaces, so it comes last.
 */
export const COUNT_NAMES = {
  requests: Object.fromEntries(OUTCOMES.map((outcome) => [outcome, `requests ${outcome}`])) as Record<Outcome, string>,
  degraded: (how: Degradation) => `degraded ${how}`,
  upstream5xx: 'upstream_5xx',
  policy: (policy: string, outcome: PolicyOutcome, route: string) => `policy ${policy} ${outcome} ${route}`,
  tier: (tier: string) => `tier ${tier}`,
  shadow: (differs: Comparison) => `shadow ${differs}`,
  storeCalls: 'store calls',
  storeFailures: 'store failures',
  latency: (bucket: number) => LATENCY_NAMES[bucket] as string,
  latencyMs: 'store latency_ms',
  savedByDenyCache: 'saved deny_cache',
  /** Each of them has spent a permit. */
  savedByLeases: 'saved leases',
  permitsLeased: 'leases permits',
  shadowStore: (name: keyof MirrorCounts) => `shadow_store ${name}`,
} as const

export const shadowCounts = v.strictObject({
  requests: units,
  refusedByBoth: units,
  refusedByShadowOnly: units,
  refusedByForceOnly: units,
} satisfies Record<keyof CandidateCounts, unknown>)

const shadowStore = v.strictObject({
  decisions: units,
  refusedByShadowOnly: units,
  refusedByStoreOnly: units,
  failures: units,
} satisfies Record<keyof MirrorCounts, unknown>)
export const SHADOW_STORE_COUNTS = Object.keys(shadowStore.entries) as readonly (keyof MirrorCounts)[]

/**
 * Labels of the families are names of policies, their patterns and outcomes: nothing of a caller, and no more series than
 * a configuration has.
 */
const METRICS = {
  requests: defineMetric({
    schema: describe(unitsBy(OUTCOMES), 'Each request once, by what became of it.'),
    read: (count) => mapNames(OUTCOMES, (outcome) => count(COUNT_NAMES.requests[outcome])),
    toFamilies: (requests) => [
      counter('sluice_requests', 'Requests by what has become of them, each once.', labelled('outcome', requests)),
    ],
  }),
  degraded: defineMetric({
    schema: describe(unitsBy(DEGRADATIONS), 'Those that were decided without the store.'),
    read: (count) => mapNames(DEGRADATIONS, (how) => count(COUNT_NAMES.degraded(how))),
    toFamilies: (degraded) => [
      counter(
        'sluice_degraded_requests',
        'Requests that were decided without the store, by how.',
        labelled('decided', degraded),
      ),
    ],
  }),
  upstream5xx: defineMetric({
    schema: describe(units, 'Those admitted that were answered with a status from 500.'),
    read: (count) => count(COUNT_NAMES.upstream5xx),
    toFamilies: (upstream5xx) => [
      counter(
        'sluice_upstream_errors',
        'Admitted requests that were answered with 500 or above, by the API or because it could not be reached.',
        upstream5xx,
      ),
    ],
  }),
  policies: defineMetric({
    schema: v.array(
      v.strictObject({
        policy: v.string(),
        route: describe(v.string(), 'The policy’s pattern; `*` if it applies everywhere.'),
        requests: unitsBy(POLICY_OUTCOMES),
      }),
    ),
    read: (_count, counts) => readPolicies(counts),
    toFamilies: (policies) => [
      counter(
        'sluice_policy_requests',
        'Requests by policy that applies to them, its pattern, and what has become of them; each in every such policy.',
        policies.flatMap(({ policy, route, requests }) =>
          Object.entries(requests)
            .filter(([, count]) => count > 0)
            .map(([outcome, count]) => [{ policy, route, outcome }, count] as const),
        ),
      ),
    ],
  }),
  tiers: defineMetric({
    schema: describe(
      v.array(v.strictObject({ tier: v.string(), limited: units })),
      'Requests that each has refused, the most first.',
    ),
    read: (_count, counts) =>
      [...counts]
        .filter(([name]) => name.startsWith(COUNT_NAMES.tier('')))
        .map(([name, limited]) => ({ tier: name.slice(COUNT_NAMES.tier('').length), limited }))
        .sort((a, b) => b.limited - a.limited || compareText(a.tier, b.tier)),
    toFamilies: (tiers) => [
      counter(
        'sluice_tier_refusals',
        'Requests that a tier has refused, or would have in shadow mode.',
        tiers.map(({ tier, limited }) => [{ tier }, limited]),
      ),
    ],
  }),
  shadow: defineMetric({
    schema: describe(shadowCounts, 'Requests that policies in shadow have decided beside those in force.'),
    read(count) {
      const refusedByBoth = count(COUNT_NAMES.shadow('both'))
      const refusedByShadowOnly = count(COUNT_NAMES.shadow('shadowOnly'))
      const refusedByForceOnly = count(COUNT_NAMES.shadow('forceOnly'))
      const refused = refusedByBoth + refusedByShadowOnly + refusedByForceOnly
      const requests = count(COUNT_NAMES.shadow('neither')) + refused
      return { requests, refusedByBoth, refusedByShadowOnly, refusedByForceOnly }
    },
    toFamilies: ({ requests, refusedByBoth, refusedByShadowOnly, refusedByForceOnly }) => [
      counter(
        'sluice_shadow_requests',
        'Requests that policies in shadow have decided beside those in force, by who would refuse them.',
        labelled('refused_by', {
          neither: requests - refusedByBoth - refusedByShadowOnly - refusedByForceOnly,
          both: refusedByBoth,
          shadow: refusedByShadowOnly,
          force: refusedByForceOnly,
        }),
      ),
    ],
  }),
  store: defineMetric({
    schema: v.strictObject({
      calls: units,
      failures: units,
      latency: v.strictObject({
        counts: describe(v.array(units), 'Of each bucket of `latencyBoundsMs`, and of what took longer.'),
        sumMs: v.number(),
      }),
    }),
    read: (count) => ({
      calls: count(COUNT_NAMES.storeCalls),
      failures: count(COUNT_NAMES.storeFailures),
      latency: { counts: LATENCY_NAMES.map(count), sumMs: count(COUNT_NAMES.latencyMs) },
    }),
    toFamilies: ({ calls, failures, latency }) => [
      counter('sluice_store_calls', 'Decisions that the store was asked for.', calls),
      counter(
        'sluice_store_failures',
        'Decisions that the store was asked for and gave no usable answer to.',
        failures,
      ),
      histogramOfSeconds(
        'sluice_store_latency_seconds',
        'How long decisions took that the store has answered.',
        LATENCY_BOUNDS_MS,
        latency,
      ),
    ],
  }),
  saved: defineMetric({
    schema: describe(
      v.strictObject({ denyCache: units, leases: units }),
      'Decisions that the store was not asked for.',
    ),
    read: (count) => ({ denyCache: count(COUNT_NAMES.savedByDenyCache), leases: count(COUNT_NAMES.savedByLeases) }),
    toFamilies: ({ denyCache, leases }) => [
      counter(
        'sluice_saved_calls',
        'Decisions that needed no call to the store.',
        labelled('by', { deny_cache: denyCache, leases }),
      ),
    ],
  }),
  leases: defineMetric({
    schema: v.strictObject({ permits: units, lapsed: units }),
    read(count) {
      const permits = count(COUNT_NAMES.permitsLeased)
      // Permits of one minute may be spent in the next, and those of the last few seconds still.
      return { permits, lapsed: Math.max(0, permits - count(COUNT_NAMES.savedByLeases)) }
    },
    toFamilies: ({ permits }) => [
      counter('sluice_leased_permits', 'Permits taken in advance; those spent are calls saved by leases.', permits),
    ],
  }),
  shadowStore: defineMetric({
    schema: describe(shadowStore, 'With STORE_SHADOW: what the store would have decided that is charged beside.'),
    read: (count) => mapNames(SHADOW_STORE_COUNTS, (name) => count(COUNT_NAMES.shadowStore(name))),
    toFamilies: ({ decisions, refusedByShadowOnly, refusedByStoreOnly, failures }) => [
      counter(
        'sluice_shadow_store_decisions',
        'Decisions of which the store that is charged beside has said what it would do, by who alone would refuse.',
        labelled('refused', {
          same: decisions - refusedByShadowOnly - refusedByStoreOnly,
          by_shadow_only: refusedByShadowOnly,
          by_store_only: refusedByStoreOnly,
        }),
      ),
      counter(
        'sluice_shadow_store_failures',
        'Calls to the store that is charged beside that got no usable answer.',
        failures,
      ),
    ],
  }),
}

type Metrics = typeof METRICS
type MetricName = keyof Metrics

export type StatisticsSummary = { [Name in MetricName]: v.InferOutput<Metrics[Name]['schema']> }

/** The schemas of a summary. */
export const summaryEntries = mapNames(Object.keys(METRICS), (name) => METRICS[name as MetricName].schema) as {
  [Name in MetricName]: Metrics[Name]['schema']
}

/** Names that another version has counted are passed over. */
export function summarize(counts: Counts): StatisticsSummary {
  const count = (name: string) => counts.get(name) ?? 0
  return mapNames(Object.keys(METRICS), (name) => METRICS[name as MetricName].read(count, counts)) as StatisticsSummary
}

export function toMetricFamilies(summary: StatisticsSummary): readonly Family[] {
  return Object.entries(METRICS).flatMap(([name, { toFamilies }]) => toFamilies(summary[name as MetricName] as never))
}

interface Metric<Schema extends v.GenericSchema> {
  /** How the API answers it. */
  readonly schema: Schema
  read(this: void, count: (name: string) => number, counts: Counts): v.InferOutput<Schema>
  toFamilies(this: void, value: v.InferOutput<Schema>): readonly Family[]
}

function defineMetric<Schema extends v.GenericSchema>(metric: Metric<Schema>): Metric<Schema> {
  return metric
}

function readPolicies(counts: Counts) {
  const rows = new Map<string, { policy: string; route: string; requests: Record<PolicyOutcome, number> }>()
  for (const [name, count] of counts) {
    const [, policy = '', outcome, route = ''] = /^policy ([\w-]+) (\w+) (.+)$/.exec(name) ?? []
    if (!isPolicyOutcome(outcome)) continue
    const key = `${policy} ${route}`
    const row = rows.get(key) ?? { policy, route, requests: mapNames(POLICY_OUTCOMES, () => 0) }
    row.requests[outcome] += count
    rows.set(key, row)
  }
  return [...rows.values()].sort((a, b) => compareText(a.policy, b.policy) || compareText(a.route, b.route))
}

function isPolicyOutcome(text: string | undefined): text is PolicyOutcome {
  return (POLICY_OUTCOMES as readonly (string | undefined)[]).includes(text)
}

function labelled(label: string, counts: Readonly<Record<string, number>>) {
  return Object.entries(counts).map(([value, count]) => [{ [label]: value }, count] as const)
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}
