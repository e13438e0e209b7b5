import type { Terminal } from '../terminal.ts'
import type { Simulation } from './simulation.ts'
import { blocks } from './timeline.ts'
import type { Variant } from './variants.ts'

/** $0.20 for 100,000, as Upstash bills regional databases that are paid as they are used. */
const DOLLARS_PER_COMMAND = 0.2 / 100_000
const MOST_CALLERS = 10

/** A simulation's result, as `--json` prints it. */
export type Result = ReturnType<typeof resultOf>

/** @param showsCallers what the log has of them */
export function resultOf(simulation: Simulation, variant: Variant, showsCallers: boolean) {
  const { counts, policies, waits, calls, commands, timeline, mostRefused } = simulation
  const hasWaited = counts.refused > 0
  return {
    limits: variant.limits ?? null,
    algorithm: variant.algorithm ?? null,
    leases: variant.leases ?? null,
    ...counts,
    policies: policies.map(({ policy, mode, requests, refused }) => ({
      policy,
      mode,
      requests,
      admitted: requests - refused,
      refused,
    })),
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
    calls,
    commands,
    dollars: Number((commands * DOLLARS_PER_COMMAND).toPrecision(6)),
    bucketMs: timeline.widthMs,
    buckets: timeline.buckets.map(({ startMs, admitted, refused, policies }) => ({
      from: new Date(startMs).toISOString(),
      admitted,
      refused,
      policies: policies.map((counts) => ({ ...counts })),
    })),
  }
}

/** The results side by side, if there are several, and then each in full. */
export function textOf(results: readonly Result[], terminal: Terminal): string {
  const parts = results.map((result) => partOf(result, terminal))
  return [...(results.length > 1 ? [comparison(results, terminal)] : []), ...parts].join('\n\n')
}

function comparison(results: readonly Result[], terminal: Terminal): string {
  const tried = triedIn(results)
  return terminal.table([...tried, ...COMPARED], comparedRows(results, tried))
}

type Tried = keyof Variant

/** In what the results differ from the configuration. */
export function triedIn(results: readonly Result[]): readonly Tried[] {
  return (['limits', 'algorithm', 'leases'] as const).filter((key) => results.some((each) => each[key] !== null))
}

/** Names of the numbers in which results are compared. */
export const COMPARED = [
  'admitted',
  'refused',
  'share',
  'median wait',
  '95th of 100',
  'longest',
  'calls',
  'commands',
  'dollars',
]

/** These numbers of each, after what was tried. */
export function comparedRows(results: readonly Result[], tried: readonly Tried[]): string[][] {
  return results.map((result) => {
    const { admitted, refused, wait, calls, commands, dollars } = result
    return [
      ...tried.map((key) => `${result[key] ?? ''}`),
      number(admitted),
      number(refused),
      `${((100 * refused) / Math.max(1, admitted + refused)).toFixed(1)}%`,
      span(wait.medianMs),
      span(wait.p95Ms),
      span(wait.longestMs),
      number(calls),
      number(commands),
      dollars.toFixed(2),
    ]
  })
}

/** What was tried, in a few words. */
export function nameOf({ limits, algorithm, leases }: Result): string {
  const parts = [
    ...(limits === null ? [] : [`RATE_LIMITS ${limits}`]),
    ...(algorithm === null ? [] : [algorithm]),
    ...(leases === null ? [] : [`leases ${leases}`]),
  ]
  return parts.length > 0 ? parts.join(', ') : 'as configured'
}

function partOf(result: Result, terminal: Terminal): string {
  const { leases, admitted, refused, rejected, policies, callers, uncertainty, wait } = result
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
    `${terminal.style('bold', nameOf(result))}: ${number(admitted)} admitted, ${number(refused)} refused${others}`,
    ...(rows.length > 0 ? [terminal.table(['policy', 'requests', 'admitted', 'refused'], rows)] : []),
    ...(refused > 0 ? [waits] : []),
    ...(callerRows.length > 0 ? [terminal.table(['policy', 'refused most', 'refused'], callerRows)] : []),
    ...(uncertainty > 0 ? [`too many callers to remember: each may have been refused ${uncertainty} times more`] : []),
    `Upstash: ${costOf(result)}${leases === null ? ', if every refusal is asked for' : ''}`,
    ...chartOf(result, terminal),
  ].join('\n')
}

function costOf({ calls, commands, dollars }: Result): string {
  return `${amount(calls, 'call')}, ${amount(commands, 'command')}, $${dollars.toFixed(2)}`
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

export function span(ms: number | null): string {
  if (ms === null) return '–'
  const [unit, unitMs] = UNITS.find(([, each]) => ms >= each) ?? ['ms', 1]
  return `${Number((ms / unitMs).toPrecision(3))}${unit}`
}
