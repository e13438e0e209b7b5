/** Figures as Markdown, and the places of pages that hold them. */
import { renderTable } from '../../tools/markdown.ts'
import type { Spread } from '../statistics.ts'

export type Row = Readonly<Record<string, string | number>>

/** The names of the first row's cells are at its head. */
export function formatRows(rows: readonly Row[]): string {
  const names = Object.keys(rows[0] ?? {})
  return renderTable(
    names,
    rows.map((row) => names.map((name) => String(row[name]))),
  )
}

/** The median, and the least and the most. */
export function formatSpread({ median, least, most }: Spread): string {
  const [middle, from, to] = [median, least, most].map((value) => round(value).toLocaleString('en'))
  return `${middle} (${from} to ${to})`
}

/** Three significant figures, and no more than three decimals. */
export function round(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Number(Number(value.toPrecision(3)).toFixed(3))
}

/**
 * Writes parts of a page anew, and leaves the others as they are.
 * @param parts Markdown by name
 * @throws Error if the page lacks the place of a part
 */
export function renewPage(page: string, parts: ReadonlyMap<string, string>): string {
  const placed = new Set<string>()
  const renewed = page.replace(/(<!-- figures: (.*?) -->\n)(.*?)(\n<!-- end of figures -->)/gs, (_, ...groups) => {
    const [begin, name, kept, end] = groups as [string, string, string, string]
    placed.add(name)
    const part = parts.get(name)
    return `${begin}${part === undefined ? kept : `\n${part}\n`}${end}`
  })
  for (const name of parts.keys()) if (!placed.has(name)) throw new Error(`the page has no place for "${name}"`)
  return renewed
}
