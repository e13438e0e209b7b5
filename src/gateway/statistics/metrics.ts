/** Everything that is counted: its names in the store, in the API and in Prometheus. `recorder.ts` counts it. */
import * as v from 'valibot'
import type { MirrorCount } from '../../core/engine/stages/mirror.ts'
import { UNTOLD_REASONS, type UntoldReason } from '../../core/model/cost.ts'
import { DEGRADATIONS, type Degradation } from '../../core/model/verdict.ts'
import { listNames, mapNames } from '../../core/runtime/lists.ts'
import type { CounterValues } from '../../core/store/counters.ts'
import { defineUnitsBy, describe, units } from '../api/schema.ts'
import { createCounter, createHistogram, type Family, type Labels } from './open-metrics.ts'
import { OUTCOMES, POLICY_OUTCOMES, type PolicyOutcome } from './outcomes.ts'

/** The pattern of a policy that applies everywhere. */
export const EVERYWHERE = '*'

/** Name of the sketch of callers: `<policy>:<digest>` by how many of their requests were refused. */
export const REFUSED_CALLERS = 'refused'

/** Name of the sketch of blocks: whom each is about, percent-encoded, by how many requests it has refused. */
export const REFUSING_RULES = 'rules'

/** Upper bounds of buckets of latency, inclusive; there is a last one above. Fixed, so that all histograms can be summed. */
export const LATENCY_BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000] as const

const LATENCY_NAMES = Array.from({ length: LATENCY_BOUNDS_MS.length + 1 }, (_, bucket) => `store latency ${bucket}`)

/** Names hold nothing of a request, so they are few. A pattern may hold spaces, so it comes last. */
export const COUNT_NAMES = {
  requests: mapNames(OUTCOMES, (outcome) => `requests ${outcome}`),
  degraded: (how: Degradation) => `degraded ${how}`,
  upstream5xx: 'upstream_5xx',
  policy: (policy: string, outcome: PolicyOutcome, route: string) => `policy ${policy} ${outcome} ${route}`,
  units: (policy: string) => `units ${policy}`,
  untold: (policy: string, reason: UntoldReason) => `untold ${policy} ${reason}`,
  limit: (name: string) => `limit ${name}`,
  storeCalls: 'store calls',
  storeFailures: 'store failures',
  /** -1 is the last bucket, above all bounds. */
  latency: (ms: number) => LATENCY_NAMES.at(LATENCY_BOUNDS_MS.findIndex((bound) => ms <= bound)) as string,
  latencyMs: 'store latency_ms',
  avoided: { refusalCache: 'avoided refusal_cache', leases: 'avoided lease' },
  permitsLeased: 'leases permits',
  mirror: (name: MirrorCount) => `mirror ${name}`,
} as const

const MIRROR_COUNTS = ['decisions', 'refusedByMirrorOnly', 'refusedByPrimaryOnly', 'failures'] as const

/** Labels are names of policies, their patterns and outcomes: no more series than a configuration has. */
const METRICS = {
  requests: defineMetric({
    ...defineTally('Each request once, by outcome.', COUNT_NAMES.requests),
    toFamilies: (requests) =>
      createCounter('sluice_requests', 'Requests by outcome, each once.', labelCounts('outcome', requests)),
  }),
  degraded: defineMetric({
    ...defineTally(
      'Those that were decided without the store.',
      mapNames(listNames(DEGRADATIONS), COUNT_NAMES.degraded),
    ),
    toFamilies: (degraded) =>
      createCounter(
        'sluice_degraded_requests',
        'Requests decided without the store.',
        labelCounts('fallback', degraded),
      ),
  }),
  upstream5xx: defineMetric({
    schema: describe(units, 'Those admitted that were answered with a status from 500.'),
    read: (count) => count(COUNT_NAMES.upstream5xx),
    toFamilies: (upstream5xx) =>
      createCounter('sluice_upstream_errors', 'Admitted requests answered with 500 or above.', upstream5xx),
  }),
  policies: defineMetric({
    schema: v.array(
      v.strictObject({
        policy: v.string(),
        route: describe(v.string(), 'The policy’s pattern; `*` if it applies everywhere.'),
        requests: defineUnitsBy(POLICY_OUTCOMES),
      }),
    ),
    read: (_count, counts) => readPolicyCounts(counts),
    toFamilies: (policies) =>
      createCounter(
        'sluice_policy_requests',
        'Requests by each policy that applies to them, its pattern, and their outcome.',
        policies.flatMap(({ policy, route, requests }) =>
          labelCounts('outcome', requests, { policy, route }).filter(([, count]) => count > 0),
        ),
      ),
  }),
  units: defineMetric({
    schema: describe(
      v.array(v.strictObject({ policy: v.string(), units })),
      'What the store has charged, of policies with costs: of all others, a request is a unit.',
    ),
    read: (_count, counts) => readNamed(COUNT_NAMES.units(''), counts).map(([policy, units]) => ({ policy, units })),
    toFamilies: (units) =>
      createCounter(
        'sluice_policy_units',
        'Units that the store has charged, of policies with costs.',
        units.map(({ policy, units }) => [{ policy }, units]),
      ),
  }),
  untold: defineMetric({
    schema: describe(
      v.array(v.strictObject({ policy: v.string(), reason: v.picklist(UNTOLD_REASONS), requests: units })),
      'Requests whose responses did not tell what they cost: they were charged what the policy says under `untold`.',
    ),
    read: (_count, counts) =>
      readNamed('untold ', counts).flatMap(([name, requests]) => {
        const [policy = '', text] = name.split(' ')
        const reason = UNTOLD_REASONS.find((each) => each === text)
        return reason ? [{ policy, reason, requests }] : []
      }),
    toFamilies: (untold) =>
      createCounter(
        'sluice_untold_costs',
        'Requests whose responses did not tell what they cost a policy, by reason.',
        untold.map(({ policy, reason, requests }) => [{ policy, reason }, requests]),
      ),
  }),
  limits: defineMetric({
    schema: describe(v.array(v.strictObject({ name: v.string(), refusals: units })), 'The most refusals first.'),
    read: (_count, counts) =>
      readNamed(COUNT_NAMES.limit(''), counts)
        .map(([name, refusals]) => ({ name, refusals }))
        .sort((a, b) => b.refusals - a.refusals),
    toFamilies: (limits) =>
      createCounter(
        'sluice_limit_refusals',
        'Requests that a limit has refused, or would have in shadow mode.',
        limits.map(({ name, refusals }) => [{ limit: name }, refusals]),
      ),
  }),
  store: defineMetric({
    schema: v.strictObject({
      calls: units,
      failures: units,
      latency: v.strictObject({
        counts: describe(v.array(units), 'By `latencyBoundsMs`, and above.'),
        sumMs: v.number(),
      }),
    }),
    read: (count) => ({
      calls: count(COUNT_NAMES.storeCalls),
      failures: count(COUNT_NAMES.storeFailures),
      latency: { counts: LATENCY_NAMES.map(count), sumMs: count(COUNT_NAMES.latencyMs) },
    }),
    toFamilies: ({ calls, failures, latency }) => [
      createCounter('sluice_store_calls', 'Decisions that the store was called for.', calls),
      createCounter('sluice_store_failures', 'Decisions to which the store gave no usable answer.', failures),
      createHistogram('sluice_store_latency_seconds', 'Duration of answered calls.', LATENCY_BOUNDS_MS, latency),
    ],
  }),
  callsAvoided: defineMetric({
    ...defineTally('Decisions without a call to the store.', COUNT_NAMES.avoided),
    toFamilies: ({ refusalCache, leases }) =>
      createCounter(
        'sluice_store_calls_avoided',
        'Decisions that needed no call to the store.',
        labelCounts('reason', { refusal_cache: refusalCache, lease: leases }),
      ),
  }),
  leases: defineMetric({
    schema: v.strictObject({ permits: units, expired: units }),
    read(count) {
      const permits = count(COUNT_NAMES.permitsLeased)
      // Permits of one minute may be spent in the next, and those of the last few seconds still.
      return { permits, expired: Math.max(0, permits - count(COUNT_NAMES.avoided.leases)) }
    },
    toFamilies: ({ permits }) =>
      createCounter('sluice_leased_permits', 'Permits taken in advance; each one used avoids a call.', permits),
  }),
  mirror: defineMetric({
    ...defineTally(
      'With STORE_MIRROR: what the mirror would have decided.',
      mapNames(MIRROR_COUNTS, COUNT_NAMES.mirror),
    ),
    toFamilies: ({ decisions, refusedByMirrorOnly, refusedByPrimaryOnly, failures }) => [
      createCounter(
        'sluice_mirror_decisions',
        'Decisions of the store and its mirror, by which of them alone refused.',
        labelCounts('result', {
          same: decisions - refusedByMirrorOnly - refusedByPrimaryOnly,
          mirror_refused: refusedByMirrorOnly,
          primary_refused: refusedByPrimaryOnly,
        }),
      ),
      createCounter('sluice_mirror_failures', 'Calls to the mirror without a usable answer.', failures),
    ],
  }),
}

type Metrics = typeof METRICS
type MetricName = keyof Metrics

export type StatisticsSummary = { [Name in MetricName]: v.InferOutput<Metrics[Name]['schema']> }

const METRIC_NAMES = listNames(METRICS)

export const summaryEntries = mapNames(METRIC_NAMES, (name) => METRICS[name].schema) as {
  [Name in MetricName]: Metrics[Name]['schema']
}

/** Names that another release has counted are skipped. */
export function summarize(counts: CounterValues): StatisticsSummary {
  const count = (name: string) => counts.get(name) ?? 0
  return mapNames(METRIC_NAMES, (name) => METRICS[name].read(count, counts)) as StatisticsSummary
}

export function toMetricFamilies(summary: StatisticsSummary): readonly Family[] {
  // Each gets the value of its own schema.
  return METRIC_NAMES.flatMap((name) => METRICS[name].toFamilies(summary[name] as never))
}

interface Metric<Schema extends v.GenericSchema> {
  readonly schema: Schema
  read(this: void, count: (name: string) => number, counts: CounterValues): v.InferOutput<Schema>
  toFamilies(this: void, value: v.InferOutput<Schema>): Family | readonly Family[]
}

/** @param stored names under which they are counted, by their names in the API */
function defineTally<Name extends string>(text: string, stored: Readonly<Record<Name, string>>) {
  const names = listNames(stored)
  const read = (count: (name: string) => number) => mapNames(names, (name) => count(stored[name]))
  return { schema: describe(defineUnitsBy(names), text), read }
}

function defineMetric<Schema extends v.GenericSchema>(metric: Metric<Schema>): Metric<Schema> {
  return metric
}

/** @returns what follows the prefix, in order, and its count */
function readNamed(prefix: string, counts: CounterValues) {
  const named = [...counts].filter(([name]) => name.startsWith(prefix))
  return named.map(([name, count]) => [name.slice(prefix.length), count] as const).sort(([a], [b]) => (a < b ? -1 : 1))
}

const POLICY_COUNT = new RegExp(`^policy ([\\w-]+) (${POLICY_OUTCOMES.join('|')}) (.+)$`)

function readPolicyCounts(counts: CounterValues) {
  const rows = new Map<string, { policy: string; route: string; requests: Record<PolicyOutcome, number> }>()
  for (const [name, count] of counts) {
    const [, policy = '', outcome, route = ''] = POLICY_COUNT.exec(name) ?? []
    if (outcome === undefined) continue
    const key = `${policy} ${route}`
    const row = rows.get(key) ?? { policy, route, requests: mapNames(POLICY_OUTCOMES, () => 0) }
    row.requests[outcome as PolicyOutcome] += count
    rows.set(key, row)
  }
  return [...rows.keys()].sort().flatMap((key) => rows.get(key) ?? [])
}

function labelCounts(label: string, counts: Readonly<Record<string, number>>, others: Labels = {}) {
  return Object.entries(counts).map(([value, count]) => [{ ...others, [label]: value }, count] as const)
}
