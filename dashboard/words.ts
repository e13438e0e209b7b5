/** How figures are written. */
import { isShared, parseSource } from '../src/core/model/identity-source.ts'
import { findStoreKind } from '../src/http/config/store-kinds.ts'
import type { ActiveLimit, ActivePolicy, Status } from './answers.ts'

const NUMBER = new Intl.NumberFormat('en')

export function formatCount(value: number): string {
  return NUMBER.format(value)
}

const COMPACT = new Intl.NumberFormat('en', { notation: 'compact' })

/** Formats the number of a tick, e.g. `1.5K`. */
export function formatCompact(value: number): string {
  return COMPACT.format(value)
}

/** Formats a moment of an axis: as a day if the axis is longer than two of them. @param axisMs length of the axis */
export function formatTime(ms: number, axisMs: number): string {
  const isLong = axisMs > 2 * 86_400_000
  return new Date(ms).toLocaleString('en-GB', isLong ? { day: 'numeric', month: 'short' } : { timeStyle: 'short' })
}

/** A count that is known within bounds. */
export function formatRange(min: number, max: number): string {
  return min === max ? formatCount(max) : `${formatCount(min)} to ${formatCount(max)}`
}

/** A share of a whole in percent. It is rounded down: 100 % is all of it. */
export function formatShare(part: number, whole: number): string {
  return whole === 0 ? '–' : `${Math.floor((10_000 * part) / whole) / 100} %`
}

/** A span of time, e.g. `1.5 s`. */
export function formatSpan(ms: number): string {
  if (ms < 1000) return `${ms} ms`
  const units = [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'min'],
    [1000, 's'],
  ] as const
  const [size, unit] = units.find(([size]) => ms >= size) ?? [1000, 's']
  const value = ms / size
  return `${Number.isInteger(value) || value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`
}

/** What a policy allows, a line for each thing. */
export function describeLimits({
  name,
  limits,
  burst,
  plans,
  cost,
  penalty,
  holdsSlots,
}: ActivePolicy): readonly string[] {
  const each = (some: readonly ActiveLimit[]) =>
    some.map((one) =>
      holdsSlots
        ? `${formatCount(one.limit)} at once, ${formatSpan(one.windowMs)} each at most`
        : describeLimit(name, one),
    )
  const refusal = penalty && `then none for ${formatSpan(penalty.durationMs)}`
  return [
    ...(plans ? Object.entries(plans).map(([plan, some]) => `${plan}: ${each(some).join(', ')}`) : each(limits)),
    ...(burst === null ? [] : [`bursts up to ${formatCount(burst)}`]),
    ...(cost.header === null ? [] : [`cost by ${cost.header}`]),
    ...(cost.units === null || cost.units === 1 ? [] : [`${formatCount(cost.units)} units a request`]),
    ...(refusal ? [penalty.after === 1 ? refusal : `${refusal}, after ${formatCount(penalty.after)} refusals`] : []),
  ]
}

/** Formats a limit with its window, e.g. `60 per 1 min`, or `60 per month` for a window of the calendar. */
export function describeLimit(policy: string, { name, limit, windowMs }: ActiveLimit): string {
  const window = readWindow(policy, name)
  return `${formatCount(limit)} per ${/^[a-z]/.test(window) ? window : formatSpan(windowMs)}`
}

function readWindow(policy: string, name: string): string {
  return name.slice(policy.length + 1)
}

/** Other limits that an override of a policy may have: twice its own. */
export function createExample({
  name,
  limits,
  holdsSlots,
}: Pick<ActivePolicy, 'name' | 'limits' | 'holdsSlots'>): string {
  const twice = limits.map((one) =>
    holdsSlots ? `${2 * one.limit}` : `${2 * one.limit}/${readWindow(name, one.name)}`,
  )
  return twice.join(', ')
}

/** Whether it counts all callers together, or all who use a route. */
export function isForEveryone({ by }: Pick<ActivePolicy, 'by'>): boolean {
  return by.map(parseSource).every((source) => source && isShared([source]))
}

export function formatMoment(ms: number): string {
  return new Date(ms).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
}

/** The same without seconds. */
export function formatMinute(ms: number): string {
  return new Date(ms).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' })
}

export function isToday(ms: number): boolean {
  return new Date(ms).toDateString() === new Date().toDateString()
}

/** The minute of a moment; of today, only the time. */
export function describeMinute(ms: number): string {
  return isToday(ms) ? formatTime(ms, 0) : formatMinute(ms)
}

const OUTCOMES: Readonly<Record<string, string>> = {
  limited: 'limited',
  deprioritized: 'units reserved for higher priorities',
  shed: 'shed: the API is overloaded',
  blocked: 'blocked by a rule',
  unidentified: 'no identity',
  bad_request: 'bad request',
  invalid_cost: 'bad request: its cost',
  ambiguous_path: 'bad request: its path',
  unavailable: 'the store was unavailable, and a policy fails closed',
  failed: 'the gateway itself failed',
  upstream: 'the API failed, or did not answer',
}

/** Why a request was refused, or has failed. */
export function describeOutcome(outcome: string): string {
  return OUTCOMES[outcome] ?? outcome
}

/** @returns the kind of a store, with the databases of several that do not answer */
export function formatStore({ kind, shards = {} }: Status['store']): string {
  const away = Object.entries(shards).filter(([, { reachable, circuit }]) => !reachable || circuit !== 'closed')
  const names = away.map(([name]) => name).join(', ')
  return `${findStoreKind(kind)?.label ?? kind}${names && ` (${names})`}`
}
