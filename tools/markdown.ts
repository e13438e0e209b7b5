/** Tables of Markdown. */

/** Columns are as wide as their longest cell, as the formatter wants it. */
export function renderTable(header: readonly string[], body: readonly (readonly string[])[]): string {
  const rows = [header, ...body].map((row) => row.map((cell) => cell.replaceAll('|', '\\|')))
  const widths = header.map((_, at) => Math.max(3, ...rows.map((row) => row[at]?.length ?? 0)))
  const lines = rows.map((row) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)))
  lines.splice(
    1,
    0,
    widths.map((width) => '-'.repeat(width)),
  )
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}
