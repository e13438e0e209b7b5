import { lstatSync, statSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { CommandError } from '../command-error.ts'
import { formatCell, formatDuration, formatNumber } from '../format.ts'
import { toLine } from '../terminal.ts'
import { formatVariant, type ReportTable, type Result, tabulateResult, tabulateResults } from './report.ts'

/** @throws {CommandError} unless the file may be created, or replaced */
export function checkOutFile(file: string, cwd: string, isForced: boolean): void {
  if (!file.endsWith('.html')) {
    throw new CommandError(`--out: expected a name that ends in .html, got ${JSON.stringify(file)}`)
  }
  const folder = dirname(resolve(cwd, file))
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new CommandError(`--out: there is no folder ${folder}`)
  }
  if (!isForced && lstatSync(resolve(cwd, file), { throwIfNoEntry: false })) throw createExistsError(file)
}

/** @param isForced replaces a file or a link of this name, but not the target of the link @throws {CommandError} */
export async function writeOutFile(file: string, cwd: string, isForced: boolean, page: string): Promise<void> {
  const path = resolve(cwd, file)
  try {
    if (isForced) await rm(path, { force: true })
    await writeFile(path, page, { flag: 'wx' })
  } catch (error) {
    const { code, name } = error as NodeJS.ErrnoException
    throw code === 'EEXIST'
      ? createExistsError(file)
      : new CommandError(`--out: ${file} cannot be written: ${code ?? name}`)
  }
}

function createExistsError(file: string): CommandError {
  return new CommandError(`--out: ${file} is there already`, { hint: 'Give another name, or --force to replace it.' })
}

const TITLE = 'What limits would do'
const KINDS = ['admitted', 'refused'] as const
const BARS: Readonly<Record<string, string>> = { admitted: 'admitted', refused: 'refused', calls: 'admitted' }
/** The colours suit colour-blind readers, too. */
const STYLE = `
:root { color-scheme: light dark; --back: #ffffff; --text: #1c2024; --line: #d5d9de; --admitted: #2f6db5; --refused: #b84a00; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171a; --text: #e6e8ea; --line: #3a4046; --admitted: #7fb0ee; --refused: #ff9c55; }
}
body { margin: 0 auto; max-width: 1000px; padding: 1.5rem 1rem; line-height: 1.5; font-family: system-ui, sans-serif;
  background: var(--back); color: var(--text); }
figure, .wide { margin: 1rem 0; }
figcaption, caption { font-weight: 600; text-align: left; }
svg { display: block; width: 100%; font-size: 12px; fill: var(--text); }
line { stroke: var(--line); }
.admitted { color: var(--admitted); fill: currentColor; }
.refused { color: var(--refused); fill: currentColor; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.8rem 0.2rem 0; border-bottom: 1px solid var(--line); text-align: left; }
caption, th, td { white-space: nowrap; }
.number { text-align: right; }
i { display: block; height: 4px; margin-left: auto; background: currentColor; }`

/** Renders a page that needs nothing else, not even a script. */
export function renderPage(notes: readonly string[], results: readonly Result[]): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${TITLE}</title>
<style>${STYLE}
</style>
</head>
<body>
<main>
<h1>${TITLE}</h1>
<ul>${notes.map((note) => `<li>${toHtml(note)}</li>`).join('')}</ul>
<p>${KINDS.map((kind) => `<span class="${kind}">■ ${kind} </span>`).join('')}</p>
${renderTable(tabulateResults(results))}
${results.map(renderResult).join('')}
</main>
</body>
</html>
`
}

function renderResult(result: Result): string {
  const { policies, buckets, bucketMs } = result
  const rows = buckets.map(({ from, policies: each, ...total }) => ({
    from,
    ...total,
    ...Object.fromEntries(
      policies.flatMap(({ policy }, at) => KINDS.map((kind) => [`${policy}: ${kind}`, each[at]?.[kind] ?? 0])),
    ),
  }))
  return `<section><h2>${toHtml(formatVariant(result))}</h2>
${buckets.length > 0 ? renderTimeline(result) : ''}
${tabulateResult(result).map(renderTable).join('')}
<details><summary>Over time, in numbers</summary>
${renderTable({ title: `Requests in each ${formatDuration(bucketMs)}`, rows })}</details></section>`
}

function renderTable({ title, rows }: ReportTable): string {
  const max = Math.max(1, ...rows.flatMap((row) => Object.keys(BARS).map((name) => Number(row[name] ?? 0))))
  const side = (cell: unknown) => (typeof cell === 'number' ? ' class="number"' : '')
  const renderCell = ([name, cell]: readonly [string, string | number]) => {
    const kind = BARS[name]
    const bar = kind ? `<i class="${kind}" style="width: ${(6 * Number(cell)) / max}rem"></i>` : ''
    return `<td${side(cell)}>${toHtml(formatCell(cell))}${bar}</td>`
  }
  const head = Object.entries(rows[0] ?? {}).map(([name, cell]) => `<th scope="col"${side(cell)}>${toHtml(name)}</th>`)
  const body = rows.map((row) => `<tr>${Object.entries(row).map(renderCell).join('')}</tr>`)
  // Tables that are too wide are scrolled, by keys as well.
  return `<div class="wide" tabindex="0" role="group" aria-label="${toHtml(title)}"><table>
<caption>${toHtml(title)}</caption>
<thead><tr>${head.join('')}</tr></thead>
<tbody>${body.join('\n')}</tbody>
</table></div>`
}

const STRIP_HEIGHT = 110

/** Draws a strip for all requests, and one for each of the policies that refused most. */
function renderTimeline({ policies, buckets }: Result): string {
  const byPolicy = policies.map(({ policy: name, ...counts }, at) => {
    return { name, ...counts, buckets: buckets.map((bucket) => ({ from: bucket.from, ...bucket.policies[at] })) }
  })
  const shown = byPolicy.filter(({ requests }) => requests > 0).toSorted((a, b) => b.refused - a.refused)
  // A single policy counts all requests.
  const strips = shown.length === 1 ? shown : [{ name: 'all requests', buckets }, ...shown.slice(0, 8)]
  const max = Math.max(
    1,
    ...strips.flatMap((strip) => strip.buckets.map(({ admitted = 0, refused = 0 }) => admitted + refused)),
  )
  const width = 620 / buckets.length
  const drawn = strips.map((strip, at) => {
    const floor = STRIP_HEIGHT * (at + 1)
    const bars = strip.buckets.flatMap((bucket, index) => {
      let y = floor
      return KINDS.filter((kind) => bucket[kind]).map((kind) => {
        const count = bucket[kind] ?? 0
        const height = (90 * count) / max
        y -= height
        const title = `<title>${bucket.from}: ${formatNumber(count)} ${kind}</title>`
        return `<rect class="${kind}" x="${index * width}" y="${y}" width="${width}" height="${height}">${title}</rect>`
      })
    })
    return `<text x="0" y="${floor - 95}">${toHtml(strip.name)}</text>
<text x="630" y="${floor - 80}">${formatNumber(max)} requests</text>
${[floor - 90, floor].map((y) => `<line x1="0" x2="620" y1="${y}" y2="${y}"/>`).join('')}
${bars.join('\n')}`
  })
  const height = STRIP_HEIGHT * strips.length + 20
  const label = `Admitted and refused requests over time, of ${strips.map(({ name }) => name).join(', ')}`
  return `<figure><figcaption>Over time</figcaption>
<svg viewBox="0 0 760 ${height}" role="img" aria-label="${toHtml(label)}">
${drawn.join('\n')}
<text x="0" y="${height - 4}">${buckets[0]?.from}</text>
<text x="620" y="${height - 4}" text-anchor="end">${buckets.at(-1)?.from}</text>
</svg></figure>`
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

function toHtml(text: string): string {
  return toLine(text).replace(/[&<>"]/g, (sign) => ENTITIES[sign] ?? '')
}
