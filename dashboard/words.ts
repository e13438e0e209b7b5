/** How figures are written. */

const NUMBER = new Intl.NumberFormat('en')

export function count(value: number): string {
  return NUMBER.format(value)
}

/** A count that is known within bounds. */
export function countBetween(atLeast: number, atMost: number): string {
  return atLeast === atMost ? count(atMost) : `${count(atLeast)} to ${count(atMost)}`
}

/** A share of a whole in percent. It is rounded down: 100 % is all of it. */
export function shareOf(part: number, whole: number): string {
  return whole === 0 ? '–' : `${Math.floor((10_000 * part) / whole) / 100} %`
}

/** A span of time, e.g. `1.5 s`. */
export function span(ms: number): string {
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

export function moment(ms: number): string {
  return new Date(ms).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
}

/** The same without seconds. */
export function minute(ms: number): string {
  return new Date(ms).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' })
}

const STORES: Readonly<Record<string, string>> = {
  redis: 'Redis',
  memory: 'in memory',
  'durable-object': 'Durable Objects',
}

/** @param kind as the API names it */
export function storeName(kind: string): string {
  return STORES[kind] ?? kind
}
