/** Windows by the calendar. Few configurations have such limits, so the Worker loads this on demand. */
import { CALENDAR_UNITS, type Calendar, type CalendarUnit, LIMITS_EXPECTED, parseLimits } from '../model/limits.ts'
import type { ReadCalendarLimits } from './read-limits.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** The most days of each window, and days on average. */
const DAYS: Readonly<Record<CalendarUnit, readonly [most: number, average: number]>> = {
  day: [1, 1],
  week: [7, 7],
  month: [31, 30.436875],
  year: [366, 365.2425],
}

const WINDOWS = new RegExp(`/(${CALENDAR_UNITS.join('|')})(?=\\s*(?:,|$))`, 'g')

/** The longest that a window may last: one in which the clocks are put back. */
const findLongestMs = (unit: CalendarUnit) => DAYS[unit][0] * DAY_MS + HOUR_MS

export const readCalendarLimits: ReadCalendarLimits = ({ algorithm, limits, timeZone, starts }, fail) => {
  const units = new Map<number, CalendarUnit>()
  const text = limits.replace(WINDOWS, (_, unit) => {
    units.set(findLongestMs(unit), unit)
    return `/${findLongestMs(unit)}ms`
  })
  const [[, unit = undefined] = []] = units
  if (unit && algorithm !== 'quota') fail('limits', `algorithm = "quota" with limits by ${unit}`)
  if (timeZone !== undefined && !unit) fail('timeZone', 'limits by day, week, month or year with it')
  const hasMonths = [...units.values()].includes('month')
  if (starts !== undefined && !hasMonths) fail('starts', 'limits by month with it')
  if (!unit) return undefined
  const parsed = parseLimits(text) ?? fail('limits', LIMITS_EXPECTED)
  return parsed.map((limit) => {
    const own = units.get(limit.windowMs)
    try {
      return own ? { ...limit, calendar: openCalendar(own, timeZone, starts) } : limit
    } catch {
      return fail('timeZone', 'the IANA name of a time zone, such as "Europe/Berlin"')
    }
  })
}

/** One formatter per time zone, shared by all limits: each takes about 50 kB. */
const CLOCKS = new Map<string, Intl.DateTimeFormat>()

/** @throws {RangeError} for an unknown time zone */
function openClock(timeZone: string): Intl.DateTimeFormat {
  const known = CLOCKS.get(timeZone)
  if (known) return known
  const clock = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'gregory',
    numberingSystem: 'latn',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  CLOCKS.set(timeZone, clock)
  return clock
}

/**
 * Makes the calendar of a time zone, whose weeks begin on Monday (ISO 8601). A window begins with the first moment of its
 * first day, which is no midnight where the clocks are put forward then.
 * @param timeZone an IANA name
 * @param starts day on which months begin, 1 to 31, or the last one of a shorter month
 * @throws {RangeError} for an unknown time zone
 */
export function openCalendar(unit: CalendarUnit, timeZone = 'UTC', starts = 1): Calendar {
  const format = openClock(timeZone)

  /** Reads the clock on the wall, to the second, as if it showed UTC. */
  function toLocal(ms: number): number {
    const [month = 0, day = 0, year = 0, ...time] = (format.format(ms).match(/\d+/g) ?? []).map(Number)
    return Date.UTC(year, month - 1, day, ...time)
  }

  /** Finds when a window begins. @param number of the window, counted from the one around 1970 */
  function findStart(number: number): number {
    const localMs = findFirstDay(unit, number, starts)
    const [before, after] = [localMs - DAY_MS, localMs + DAY_MS].map((ms) => localMs - (toLocal(ms) - ms)) as [
      number,
      number,
    ]
    // Of a midnight that comes twice, the first one. One that is skipped would have been when the clocks change.
    return toLocal(before) !== localMs && toLocal(after) === localMs ? after : before
  }

  function computeEnds(nowMs: number): number[] {
    let number = Math.round(nowMs / DAY_MS / DAYS[unit][1])
    while (findStart(number) > nowMs) number--
    const ends = [findStart(number)]
    // A day that a time zone leaves out is no window.
    while (ends.length < 3) {
      const endMs = findStart(++number)
      if (endMs <= nowMs) ends[0] = endMs
      else if (endMs > (ends.at(-1) as number)) ends.push(endMs)
    }
    return ends
  }

  let ends: readonly number[] = []
  return {
    unit,
    timeZone,
    starts,
    findEnds(nowMs) {
      const [startMs = Number.POSITIVE_INFINITY, endMs = 0] = ends
      // Intl takes microseconds, so it is called once a window.
      if (nowMs < startMs || nowMs >= endMs) ends = computeEnds(nowMs)
      return ends
    },
  }
}

/** Midnight on the first day of a window, as if it were UTC. */
function findFirstDay(unit: CalendarUnit, number: number, starts: number): number {
  switch (unit) {
    case 'day':
      return number * DAY_MS
    case 'week':
      // 5 January 1970 was a Monday.
      return (number * 7 + 4) * DAY_MS
    case 'month':
      return Date.UTC(1970, number, Math.min(starts, new Date(Date.UTC(1970, number + 1, 0)).getUTCDate()))
    case 'year':
      return Date.UTC(1970 + number, 0)
  }
}
