const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const COMMON = /^(\d{2})\/(\w{3})\/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-])(\d{2})(\d{2})$/
/** Numbers below these are seconds, milliseconds and microseconds: each holds for the years 1973 to 5138. */
const MOST = [
  [1e11, 1_000],
  [1e14, 1],
  [1e17, 1e-3],
  [Number.POSITIVE_INFINITY, 1e-6],
] as const

/** In the year 5138. */
const LAST_MS = 1e14

/** Makes a reader of times as logs write them, which remembers the last: many lines have the same. */
export function createTimeReader(): (value: unknown) => number | undefined {
  let last: unknown
  let lastMs: number | undefined
  return function readTime(value) {
    if (value === last) return lastMs
    last = value
    lastMs = timeOf(value)
    return lastMs
  }
}

/**
 * Reads a number of s, ms, µs or ns since the Unix epoch, a time of RFC 3339, or one of the Common Log Format.
 * @returns milliseconds since the Unix epoch; undefined for anything else
 */
function timeOf(value: unknown): number | undefined {
  const isNumber = typeof value === 'number' || (typeof value === 'string' && /^\d{1,19}(?:\.\d{1,9})?$/.test(value))
  const ms = isNumber ? ofNumber(Number(value)) : typeof value === 'string' ? ofText(value) : Number.NaN
  return ms >= 0 && ms < LAST_MS ? ms : undefined
}

function ofNumber(value: number): number {
  const [, unitMs = 1] = MOST.find(([most]) => value < most) ?? []
  return value * unitMs
}

function ofText(text: string): number {
  return /^\d{4}-/.test(text) ? Date.parse(text) : ofCommon(text)
}

function ofCommon(text: string): number {
  const [, day, month = '', year, hours, minutes, seconds, sign, zoneHours, zoneMinutes] = COMMON.exec(text) ?? []
  const index = MONTHS.indexOf(month)
  if (index < 0) return Number.NaN
  const zoneMs = (Number(zoneHours) * 60 + Number(zoneMinutes)) * 60_000
  const localMs = Date.UTC(Number(year), index, Number(day), Number(hours), Number(minutes), Number(seconds))
  return sign === '+' ? localMs - zoneMs : localMs + zoneMs
}
