import type { Terminal } from '../terminal.ts'
import type { Simulation } from './simulation.ts'
import { blocks } from './timeline.ts'

/** $0.20 for 100,000, as Upstash bills regional databases that are paid as they are used. */
const DOLLARS_PER_COMMAND = 0.2 / 100_000
const MOST_CALLERS = 10

/** A simulation's result, as `--json` prints it. */
export type Result = ReturnType<typeof resultOf>

/** @param limits those in place of RATE_LIMITS; undefined: as configured @param showsCallers what the log has of them */
export function resultOf(simulation: Simulation, limits: string | undefined, showsCallers: boolean) {
  const { counts, policies, waits, commands, timeline, mostRefused } = simulation
  const hasWaited = counts.refused > 0
  return {
    limits: limits ?? null,
    ...counts,
    policies: policies.map((policy) => ({ ...policy, admitted: policy.requests - policy.refused })),
    callers: mostRefused.top(MOST_CALLERS).map(({ policy, digest, shown, refused }) => ({
      policy,
      digest,
      ...(showsCallers && { caller: shown }),
      refused,
    })),
    uncertainty: mostRefused.uncertainty,
    wait: {
      medianMs: hasWaited ? waits.percentileMs(50) : null,
      p95Ms: hasWaited ? waits.percentileMs(95) : null,
      longestMs: hasWaited ? waits.longestMs : null,
    },
    commands,
    dollars: Number((commands * DOLLARS_PER_COMMAND).toPrecision(6)),
    bucketMs: timeline.widthMs,
    buckets: timeline.buckets.map(({ startMs, admitted, refused }) => ({
      from: new Date(startMs).toISOString(),
      admitted,
      refused,
    })),
  }
}

/** The results side by side, if there are several, and then each in full. */
export function textOf(results: readonly Result[], terminal: Terminal): string {
  const parts = results.map((result) => partOf(result, terminal))
  return [...(results.length > 1 ? [comparison(results, terminal)] : []), ...parts].join('\n\n')
}

function comparison(results: readonly Result[], terminal: Terminal): string {
  return terminal.table(
    ['limits', 'admitted', 'refused', 'share', 'median wait', '95th of 100', 'longest', 'commands', 'dollars'],
    results.map(({ limits, admitted, refused, wait, commands, dollars }) => [
      limits ?? '',
      number(admitted),
      number(refused),
      `${((100 * refused) / Math.max(1, admitted + refused)).toFixed(1)}%`,
      span(wait.medianMs),
      span(wait.p95Ms),
      span(wait.longestMs),
      number(commands),
      dollars.toFixed(2),
    ]),
  )
}

function partOf(result: Result, terminal: Terminal): string {
  const { limits, admitted, refused, rejected, policies, callers, uncertainty, wait, commands, dollars } = result
  const rows = policies.map(({ policy, mode, requests, admitted, refused }) => [
    mode === 'shadow' ? `${policy} (shadow)` : policy,
    number(requests),
    number(admitted),
    number(refused),
  ])
  const others = rejected > 0 ? `, ${number(rejected)} answered without counting` : ''
  const waits = `waits: median ${span(wait.medianMs)}, 95 of 100 within ${span(wait.p95Ms)}, longest ${span(wait.longestMs)}`
  const callerRows = callers.map(({ policy, digest, caller, refused }) => [policy, caller ?? digest, number(refused)])
  return [
    `${terminal.style('bold', limits === null ? 'as configured' : `RATE_LIMITS ${limits}`)}: ${number(admitted)} admitted, ${number(refused)} refused${others}`,
    ...(rows.length > 0 ? [terminal.table(['policy', 'requests', 'admitted', 'refused'], rows)] : []),
    ...(refused > 0 ? [waits] : []),
    ...(callerRows.length > 0 ? [terminal.table(['policy', 'refused most', 'refused'], callerRows)] : []),
    ...(uncertainty > 0 ? [`too many callers to remember: each may have been refused ${uncertainty} times more`] : []),
    `Upstash: ${amount(commands, 'command')}, $${dollars.toFixed(2)}, if every refusal is asked for`,
    ...chartOf(result, terminal),
  ].join('\n')
}

function chartOf({ buckets, bucketMs }: Result, terminal: Terminal): string[] {
  const [first, last] = [buckets[0], buckets.at(-1)]
  if (!first || !last) return []
  const most = Math.max(...buckets.flatMap(({ admitted, refused }) => [admitted, refused]))
  const row = (kind: 'admitted' | 'refused') =>
    blocks(
      buckets.map((bucket) => bucket[kind]),
      most,
    )
  return [
    `admitted ${terminal.style('green', row('admitted'))}`,
    `refused  ${terminal.style('red', row('refused'))}`,
    `         a block is ${span(bucketMs)}, a whole one ${amount(most, 'request')}; from ${first.from} to ${last.from}`,
  ]
}

export function number(value: number): string {
  return value.toLocaleString('en')
}

export function amount(count: number, one: string): string {
  return `${number(count)} ${one}${count === 1 ? '' : 's'}`
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

function span(ms: number | null): string {
  if (ms === null) return '–'
  const [unit, unitMs] = UNITS.find(([, each]) => ms >= each) ?? ['ms', 1]
  return `${Number((ms / unitMs).toPrecision(3))}${unit}`
}
