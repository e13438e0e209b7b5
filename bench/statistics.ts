/** Medians of what was measured several times. */

/** What was measured several times. */
export interface Spread {
  readonly median: number
  readonly least: number
  readonly most: number
}

/** @throws Error without values */
export function summarize(values: readonly number[]): Spread {
  return { median: computeMedian(values), least: Math.min(...values), most: Math.max(...values) }
}

/** @throws Error without values */
export function computeMedian(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const [low, high] = [sorted[sorted.length % 2 === 0 ? middle - 1 : middle], sorted[middle]]
  if (low === undefined || high === undefined) throw new Error('no values to take the median of')
  return (low + high) / 2
}

/** The median of each figure over several rows of the same figures. */
export function summarizeRows<T extends Readonly<Record<string, number>>>(rows: readonly T[]): T {
  const names = Object.keys(rows[0] ?? {})
  return Object.fromEntries(names.map((name) => [name, computeMedian(rows.map((row) => row[name] ?? Number.NaN))])) as T
}
