/** Tables that the long forms print. */
export type TableRow = readonly [name: string, value: number, note?: string]

/** Rows in columns. */
export function formatTable(rows: readonly TableRow[]): string {
  const cells = rows.map(([name, value, note = '']) => [name, formatNumber(value), note] as const)
  const names = Math.max(...cells.map(([name]) => name.length))
  const values = Math.max(...cells.map(([, value]) => value.length))
  return cells
    .map(([name, value, note]) => `${name.padEnd(names)}  ${value.padStart(values)}  ${note}`.trimEnd())
    .join('\n')
}

export function formatNumber(value: number): string {
  return Math.round(value).toLocaleString('en')
}

export function formatPercent(share: number): string {
  return `${(share * 100).toFixed(1)}%`
}
