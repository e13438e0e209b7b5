import { LATENCY_BOUNDS_MS } from '../../statistics/latency.ts'
import type { Numbers } from '../../statistics/numbers.ts'
import { counter, type Family, histogramOfSeconds, info } from './open-metrics.ts'

/**
 * What is told of the numbers. Labels are names of policies, their patterns and outcomes: nothing of a caller, and no
 * more series than a configuration has.
 */
export function familiesOf(numbers: Numbers, version: string): readonly Family[] {
  const { requests, degraded, upstream5xx, policies, tiers, shadow, store, saved, leases, shadowStore } = numbers
  const { counts, sumMs } = store.latency
  const one = (value: number) => [[{}, value]] as const
  return [
    info('sluice_build', 'The version that has answered.', { version }),
    counter(
      'sluice_requests',
      'Requests by what has become of them, each once.',
      Object.entries(requests).map(([outcome, count]) => [{ outcome }, count]),
    ),
    counter(
      'sluice_degraded_requests',
      'Requests that were decided without the store, by how.',
      Object.entries(degraded).map(([decided, count]) => [{ decided }, count]),
    ),
    counter(
      'sluice_upstream_errors',
      'Admitted requests that were answered with 500 or above, by the API or because it could not be reached.',
      one(upstream5xx),
    ),
    counter(
      'sluice_policy_requests',
      'Requests by policy that applies to them, its pattern, and what has become of them; each in every such policy.',
      policies.flatMap(({ policy, route, requests: own }) =>
        Object.entries(own)
          .filter(([, count]) => count > 0)
          .map(([outcome, count]) => [{ policy, route, outcome }, count] as const),
      ),
    ),
    counter(
      'sluice_tier_refusals',
      'Requests that a tier has refused, or would have in shadow mode.',
      tiers.map(({ tier, limited }) => [{ tier }, limited]),
    ),
    counter(
      'sluice_shadow_requests',
      'Requests that policies in shadow have decided beside those in force, by who would refuse them.',
      [
        [{ refused_by: 'neither' }, shadow.requests - refusedInShadow(shadow)],
        [{ refused_by: 'both' }, shadow.refusedByBoth],
        [{ refused_by: 'shadow' }, shadow.refusedByShadowOnly],
        [{ refused_by: 'force' }, shadow.refusedByForceOnly],
      ],
    ),
    counter('sluice_store_calls', 'Decisions that the store was asked for.', one(store.calls)),
    counter(
      'sluice_store_failures',
      'Decisions that the store was asked for and gave no usable answer to.',
      one(store.failures),
    ),
    histogramOfSeconds(
      'sluice_store_latency_seconds',
      'How long decisions took that the store has answered.',
      LATENCY_BOUNDS_MS,
      counts,
      sumMs,
    ),
    counter('sluice_saved_calls', 'Decisions that needed no call to the store.', [
      [{ by: 'deny_cache' }, saved.denyCache],
      [{ by: 'leases' }, saved.leases],
    ]),
    counter(
      'sluice_leased_permits',
      'Permits taken in advance; those spent are calls saved by leases.',
      one(leases.permits),
    ),
    counter(
      'sluice_shadow_store_decisions',
      'Decisions of which the store that is charged beside has said what it would do, by who alone would refuse.',
      [
        [{ refused: 'same' }, shadowStore.decisions - shadowStore.refusedByShadowOnly - shadowStore.refusedByStoreOnly],
        [{ refused: 'by_shadow_only' }, shadowStore.refusedByShadowOnly],
        [{ refused: 'by_store_only' }, shadowStore.refusedByStoreOnly],
      ],
    ),
    counter(
      'sluice_shadow_store_failures',
      'Calls to the store that is charged beside that got no usable answer.',
      one(shadowStore.failures),
    ),
  ]
}

/** By one of them, or by both. */
function refusedInShadow({ refusedByBoth, refusedByShadowOnly, refusedByForceOnly }: Numbers['shadow']): number {
  return refusedByBoth + refusedByShadowOnly + refusedByForceOnly
}
