/** @throws Error without values */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const [low, high] = [sorted[sorted.length % 2 === 0 ? middle - 1 : middle], sorted[middle]]
  if (low === undefined || high === undefined) throw new Error('no values to take the median of')
  return (low + high) / 2
}

/** Between these lies the middle half of the values. @throws Error without two values */
export function quartiles(values: readonly number[]): [low: number, high: number] {
  const sorted = values.toSorted((a, b) => a - b)
  const half = sorted.length >> 1
  return [median(sorted.slice(0, half)), median(sorted.slice(-half))]
}

/** The median of each figure over several rows of the same figures. */
export function medians<T extends Readonly<Record<string, number>>>(rows: readonly T[]): T {
  const names = Object.keys(rows[0] ?? {})
  return Object.fromEntries(names.map((name) => [name, median(rows.map((row) => row[name] ?? Number.NaN))])) as T
}
