import { formatCount, formatDuration, formatNumber } from '../format.ts'
import type { Terminal } from '../terminal.ts'
import type { Simulation } from './simulation.ts'
import type { Variant } from './variants.ts'

/** $0.20 for 100,000, as Upstash bills regional databases that are paid as they are used. */
const DOLLARS_PER_COMMAND = 0.2 / 100_000
const MAX_CALLERS = 10
const BARS = '▁▂▃▄▅▆▇█'

/** One entry of `results` in the JSON. */
export type Result = ReturnType<typeof createResult>

export function createResult(simulation: Simulation, variant: Variant, showsCallers: boolean) {
  const { counts, policies, store, timeline } = simulation
  const hasWaited = counts.refused > 0
  return {
    limits: variant.limits ?? null,
    algorithm: variant.algorithm ?? null,
    leases: variant.leases ?? null,
    ...counts,
    policies: policies.map(({ policy: { name, mode }, requests, refused }) => ({
      policy: name,
      mode,
      requests,
      admitted: requests - refused,
      refused,
    })),
    callers: simulation.topRefused(MAX_CALLERS).map(({ policy, digest, shown, refused }) => ({
      policy,
      digest,
      ...(showsCallers && { caller: shown }),
      refused,
    })),
    uncertainty: 0,
    wait: {
      medianMs: hasWaited ? simulation.waitPercentileMs(50) : null,
      p95Ms: hasWaited ? simulation.waitPercentileMs(95) : null,
      longestMs: hasWaited ? simulation.longestWaitMs : null,
    },
    calls: store.calls,
    commands: store.commands,
    dollars: Number((store.commands * DOLLARS_PER_COMMAND).toPrecision(6)),
    bucketMs: timeline.widthMs,
    buckets: timeline.buckets.map(({ startMs, total, policies }) => ({
      from: new Date(startMs).toISOString(),
      ...total,
      policies,
    })),
  }
}

/** Shows several results side by side, and then each in full. */
export function formatResults(results: readonly Result[], terminal: Terminal): string {
  const tried = (['limits', 'algorithm', 'leases'] as const).filter((key) => results.some((each) => each[key] !== null))
  const numbers = ['admitted', 'refused', 'share', 'median wait', '95th of 100', 'longest']
  const rows = results.map((result) => [...tried.map((key) => `${result[key] ?? ''}`), ...formatNumbers(result)])
  const comparison = terminal.table([...tried, ...numbers, 'calls', 'commands', 'dollars'], rows)
  return [...(results.length > 1 ? [comparison] : []), ...results.map((each) => formatResult(each, terminal))].join(
    '\n\n',
  )
}

function formatNumbers({ admitted, refused, wait, calls, commands, dollars }: Result): string[] {
  return [
    ...[admitted, refused].map(formatNumber),
    `${((100 * refused) / Math.max(1, admitted + refused)).toFixed(1)}%`,
    ...[wait.medianMs, wait.p95Ms, wait.longestMs].map(formatDuration),
    ...[calls, commands].map(formatNumber),
    dollars.toFixed(2),
  ]
}

function formatResult(result: Result, terminal: Terminal): string {
  const { limits, algorithm, leases, rejected, policies, callers, calls, commands, dollars } = result
  const variant = [limits && `RATE_LIMITS ${limits}`, algorithm, leases && `leases ${leases}`]
    .filter(Boolean)
    .join(', ')
  const [admitted, refused, , median, p95, longest] = formatNumbers(result)
  const rows = policies.map(({ policy, mode, requests, admitted, refused }) => [
    mode === 'shadow' ? `${policy} (shadow)` : policy,
    ...[requests, admitted, refused].map(formatNumber),
  ])
  const callerRows = callers.map(({ policy, digest, caller, refused }) => [
    policy,
    caller ?? digest,
    formatNumber(refused),
  ])
  const others = rejected > 0 ? `, ${formatNumber(rejected)} answered without counting` : ''
  const cost = `${formatCount(calls, 'call')}, ${formatCount(commands, 'command')}, $${dollars.toFixed(2)}`
  return [
    `${terminal.style('bold', variant || 'as configured')}: ${admitted} admitted, ${refused} refused${others}`,
    ...(rows.length > 0 ? [terminal.table(['policy', 'requests', 'admitted', 'refused'], rows)] : []),
    ...(result.refused > 0 ? [`waits: median ${median}, 95 of 100 within ${p95}, longest ${longest}`] : []),
    ...(callerRows.length > 0 ? [terminal.table(['policy', 'refused most', 'refused'], callerRows)] : []),
    `Upstash: ${cost}${leases === null ? ', if every refusal is asked for' : ''}`,
    ...drawTimeline(result, terminal),
  ].join('\n')
}

function drawTimeline({ buckets, bucketMs }: Result, terminal: Terminal): string[] {
  const [first, last] = [buckets[0], buckets.at(-1)]
  if (!first || !last) return []
  const max = Math.max(...buckets.flatMap(({ admitted, refused }) => [admitted, refused]))
  // No count at all is a space.
  const bar = (count: number) => BARS[Math.ceil((count / max) * BARS.length) - 1] ?? ' '
  const row = (outcome: 'admitted' | 'refused') => buckets.map((bucket) => bar(bucket[outcome])).join('')
  return [
    `admitted ${terminal.style('green', row('admitted'))}`,
    `refused  ${terminal.style('red', row('refused'))}`,
    `         a block is ${formatDuration(bucketMs)}, a whole one ${formatCount(max, 'request')}; from ${first.from} to ${last.from}`,
  ]
}
