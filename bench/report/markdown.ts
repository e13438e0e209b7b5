/** Rows of figures as a table. */
import { renderTable } from '../../tools/markdown.ts'

export type Row = Readonly<Record<string, string | number>>

/** The names of the first row's cells are at its head. */
export function formatRows(rows: readonly Row[]): string {
  const names = Object.keys(rows[0] ?? {})
  return renderTable(
    names,
    rows.map((row) => names.map((name) => String(row[name]))),
  )
}
