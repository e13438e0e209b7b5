/** Tables of Markdown. */
export type Row = Readonly<Record<string, string | number>>

/** A table of Markdown, with the names of the first row's cells at its head. */
export function formatRows(rows: readonly Row[]): string {
  const names = Object.keys(rows[0] ?? {})
  const cells = [names, ...rows.map((row) => names.map((name) => String(row[name])))]
  const widths = names.map((_, column) => Math.max(3, ...cells.map((line) => line[column]?.length ?? 0)))
  const lines = cells.map((line) => `| ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`)
  lines.splice(1, 0, `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`)
  return lines.join('\n')
}
