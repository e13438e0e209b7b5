/** Formats numbers and durations for people. */
export function formatNumber(value: number): string {
  return value.toLocaleString('en')
}

export function formatCell(cell: string | number): string {
  return typeof cell === 'number' ? formatNumber(cell) : cell
}

/** @param one the name of a single one: `formatCount(2, 'key')` is `2 keys` */
export function formatCount(count: number, one: string): string {
  return `${formatNumber(count)} ${one}${count === 1 ? '' : 's'}`
}

/** @param share 0 to 1 */
export function formatPercent(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** Formats a duration with three digits, such as `1.25s`, and none as a dash. */
export function formatDuration(ms: number | null): string {
  if (!ms) return '–'
  const [unit, unitMs] = UNITS.find(([, each]) => ms >= each) ?? ['ms', 1]
  return `${Number((ms / unitMs).toPrecision(3))}${unit}`
}
