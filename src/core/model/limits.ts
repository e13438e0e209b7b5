/** Limits, and how they are written. */

export const ALGORITHM_NAMES = [
  'sliding-window',
  'token-bucket',
  'fixed-window',
  'quota',
  'sorted-set',
  'concurrency',
] as const
export type AlgorithmName = (typeof ALGORITHM_NAMES)[number]

/** At most so many units in a window, e.g. 120 per 60,000 ms. */
export interface Limit {
  /** The most units in the window, an integer from 1. */
  readonly limit: number
  /** Length of the window, an integer from 1; the longest that a window of the calendar may have. */
  readonly windowMs: number
  /** Its windows are those of a calendar. */
  readonly calendar?: Calendar | undefined
  /** The ends that the calendar of the asking isolate finds, for a store in another place. */
  readonly endsMs?: readonly number[]
}

export const CALENDAR_UNITS = ['day', 'week', 'month', 'year'] as const
export type CalendarUnit = (typeof CALENDAR_UNITS)[number]

/** Days, weeks, months or years of a time zone. */
export interface Calendar {
  readonly unit: CalendarUnit
  readonly timeZone: string
  /** The day on which months begin. */
  readonly starts: number
  /** @returns the moments around `nowMs` at which windows end: the last one until then, and the next two */
  readonly findEnds: (nowMs: number) => readonly number[]
}

export interface CountsEntry {
  /** It applies only if a charge before it detects a new identity. */
  readonly needsNewIdentity: boolean
  /** It refuses like any other, but is charged after the response, if it counts that. */
  readonly isChargedLater: boolean
  /** Its units in texts and headers, if they are not units of requests. */
  readonly unit: { readonly noun: string; readonly inHeaders: string } | undefined
}

/** Everything that a policy may count. */
export const COUNTS = {
  requests: { needsNewIdentity: false, isChargedLater: false, unit: undefined },
  'new-identities': { needsNewIdentity: true, isChargedLater: false, unit: undefined },
  responses: { needsNewIdentity: false, isChargedLater: true, unit: undefined },
  failures: { needsNewIdentity: false, isChargedLater: true, unit: { noun: 'failure', inHeaders: 'failed-requests' } },
  successes: {
    needsNewIdentity: false,
    isChargedLater: true,
    unit: { noun: 'successful request', inHeaders: 'successful-requests' },
  },
} satisfies Readonly<Record<string, CountsEntry>>

export type Counts = keyof typeof COUNTS

/** Tests that it is charged for every request that it matches, with the decision. */
export function countsEveryRequest(counts: Counts = 'requests'): boolean {
  const { needsNewIdentity, isChargedLater } = COUNTS[counts]
  return !needsNewIdentity && !isChargedLater
}

/** A penalty: refusals extended for a fixed time after repeated refusals. */
export interface PenaltySettings {
  /** An integer from 1. */
  readonly durationMs: number
  /**
   * Refusals that lead to it, an integer from 1 to 1000, within a span as long as the longest window, which begins with the
   * first of them.
   */
  readonly after: number
}

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
export type Unit = keyof typeof UNIT_MS

/** With larger limits, totals could exceed the integers that Lua and JavaScript share. */
const MAX_LIMIT = 4_294_967_295
const MAX_WINDOW_MS = 53 * UNIT_MS.w

export const LIMITS_EXPECTED = 'limits such as "10/1s, 120/1m"'

const UNITS = Object.keys(UNIT_MS)
const DURATION = new RegExp(`^(\\d{1,11})(${UNITS.join('|')})$`)

export const DURATION_EXPECTED = `a duration from 1ms to 53w such as "30s" (units ${UNITS.join(' ')})`

/** Says what is wrong with limits that cannot be read: the first part that is. */
export function explainLimits(text: string): string {
  for (const part of text.slice(0, 100).split(',')) {
    const [limit = '', window] = part.trim().split(/\/(.*)/s)
    if (window === undefined) return `${JSON.stringify(limit)} lacks a window`
    if (!parseDuration(window) && !CALENDAR_UNITS.some((unit) => unit === window))
      return `${JSON.stringify(window)} is no ${DURATION_EXPECTED.slice(2)}`
    if (!parseLimits(`${limit}/1s`)) return `${JSON.stringify(limit)} is no limit from 1 to ${MAX_LIMIT}`
  }
  return 'each window once; day, week, month and year with "quota"'
}

/**
 * Reads `<limit>/<window>, …`, e.g. `10/1s, 120/1m`, into limits ordered by window.
 * @returns undefined for anything but what `LIMITS_EXPECTED` says, and for windows of the calendar
 */
export function parseLimits(text: string): readonly Limit[] | undefined {
  const limits: Limit[] = []
  for (const part of text.split(',')) {
    const [, max, window = ''] = /^\s*(\d{1,10})\/(\S+)\s*$/.exec(part) ?? []
    const windowMs = parseDuration(window)
    const limit = { limit: Number(max), windowMs: windowMs ?? 0 }
    const isValid = windowMs !== undefined && limit.limit >= 1 && limit.limit <= MAX_LIMIT
    if (!isValid || limits.some((other) => other.windowMs === windowMs)) return undefined
    limits.push(limit)
  }
  return limits.sort((a, b) => a.windowMs - b.windowMs)
}

/**
 * Reads `<count><unit>`, e.g. `30s`, into milliseconds.
 * @returns undefined for anything but what `DURATION_EXPECTED` says
 */
export function parseDuration(text: string): number | undefined {
  const [, count, unit] = DURATION.exec(text) ?? []
  const durationMs = Number(count) * UNIT_MS[unit as Unit]
  return durationMs >= 1 && durationMs <= MAX_WINDOW_MS ? durationMs : undefined
}

/** A window in its largest whole unit, e.g. `1m` for 60,000 ms. */
export function formatWindow(windowMs: number): string {
  const units = Object.entries(UNIT_MS).reverse()
  const [unit, unitMs] = units.find(([, ms]) => windowMs % ms === 0) ?? ['ms', 1]
  return `${windowMs / unitMs}${unit}`
}
