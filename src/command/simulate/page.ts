/** Writes the page of a simulation. */
import { lstatSync, statSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { html, raw } from 'hono/html'
import { CommandError } from '../command-error.ts'
import { formatCell, formatDuration, formatNumber } from '../format.ts'
import { replaceControls } from '../terminal.ts'
import { formatVariant, type ReportTable, type Result, tabulateResult, tabulateResults } from './report.ts'

/**
 * Finds out whether a page can be written, before there is one.
 * @param isForced replaces a file or a link of this name, but not the target of the link
 * @returns what writes the page @throws {CommandError}
 */
export function preparePageFile(file: string, cwd: string, isForced: boolean): (page: string) => Promise<void> {
  const path = resolve(cwd, file)
  const folder = dirname(path)
  const createError = (problem: string, hint?: string) => new CommandError(`--out: ${problem}`, { hint })
  const createExistsError = () =>
    createError(`${file} is there already`, 'Give another name, or --force to replace it.')
  if (!file.endsWith('.html')) throw createError(`expected a name that ends in .html, got ${JSON.stringify(file)}`)
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) throw createError(`there is no folder ${folder}`)
  if (!isForced && lstatSync(path, { throwIfNoEntry: false })) throw createExistsError()
  return async (page) => {
    try {
      if (isForced) await rm(path, { force: true })
      await writeFile(path, page, { flag: 'wx' })
    } catch (error) {
      const { code, name } = error as NodeJS.ErrnoException
      throw code === 'EEXIST' ? createExistsError() : createError(`${file} cannot be written: ${code ?? name}`)
    }
  }
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

/** Renders a page that needs nothing else, not even a script. `html` escapes all values. */
export async function renderPage(notes: readonly string[], results: readonly Result[]): Promise<string> {
  const page = await html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${TITLE}</title>
<style>${raw(STYLE)}
</style>
</head>
<body>
<main>
<h1>${TITLE}</h1>
<ul>${notes.map((note) => html`<li>${note}</li>`)}</ul>
<p>${KINDS.map((kind) => html`<span class="${kind}">■ ${kind} </span>`)}</p>
${renderTable(tabulateResults(results))}
${results.map(renderResult)}
</main>
</body>
</html>
`
  return replaceControls(`${page}`)
}

function renderResult(result: Result) {
  const { policies, buckets, bucketMs } = result
  const rows = buckets.map(({ from, policies: each, ...total }) => ({
    from,
    ...total,
    ...Object.fromEntries(
      policies.flatMap(({ policy }, at) => KINDS.map((kind) => [`${policy}: ${kind}`, each[at]?.[kind] ?? 0])),
    ),
  }))
  return html`<section><h2>${formatVariant(result)}</h2>
${buckets.length > 0 && renderTimeline(result)}
${tabulateResult(result).map(renderTable)}
<details><summary>Over time, in numbers</summary>
${renderTable({ title: `Requests in each ${formatDuration(bucketMs)}`, rows })}</details></section>`
}

function renderTable({ title, rows }: ReportTable) {
  const max = Math.max(1, ...rows.flatMap((row) => Object.keys(BARS).map((name) => Number(row[name] ?? 0))))
  const side = (cell: unknown) => typeof cell === 'number' && html` class="number"`
  const renderCell = ([name, cell]: readonly [string, string | number]) => {
    const kind = BARS[name]
    const bar = kind && html`<i class="${kind}" style="width: ${(6 * Number(cell)) / max}rem"></i>`
    return html`<td${side(cell)}>${formatCell(cell)}${bar}</td>`
  }
  const head = Object.entries(rows[0] ?? {}).map(([name, cell]) => html`<th scope="col"${side(cell)}>${name}</th>`)
  // Tables that are too wide are scrolled, by keys as well.
  return html`<div class="wide" tabindex="0" role="group" aria-label="${title}"><table>
<caption>${title}</caption>
<thead><tr>${head}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${Object.entries(row).map(renderCell)}</tr>\n`)}</tbody>
</table></div>`
}

const STRIP_HEIGHT = 110

/** Draws a strip for all requests, and one for each of the policies that refused most. */
function renderTimeline({ policies, buckets }: Result) {
  const asked = policies
    .map((policy, at) => ({ ...policy, counts: buckets.flatMap((bucket) => bucket.policies[at] ?? []) }))
    .filter(({ requests }) => requests > 0)
    .toSorted((a, b) => b.refused - a.refused)
  // A single policy counts all requests.
  const shown = asked.length === 1 ? asked : [{ policy: 'all requests', counts: buckets }, ...asked.slice(0, 8)]
  const max = Math.max(1, ...shown.flatMap(({ counts }) => counts.map(({ admitted, refused }) => admitted + refused)))
  const width = 620 / buckets.length
  const strips = shown.map(({ policy, counts }, at) => {
    const bars = counts.flatMap((count, index) => {
      let y = STRIP_HEIGHT
      return KINDS.filter((kind) => count[kind] > 0).map((kind) => {
        const height = (90 * count[kind]) / max
        y -= height
        const title = html`<title>${buckets[index]?.from}: ${formatNumber(count[kind])} ${kind}</title>`
        return html`<rect class="${kind}" x="${index * width}" y="${y}" width="${width}" height="${height}">${title}</rect>\n`
      })
    })
    return html`<g transform="translate(0 ${STRIP_HEIGHT * at})">
<text x="0" y="15">${policy}</text>
<text x="630" y="30">${formatNumber(max)} requests</text>
<line x1="0" x2="620" y1="20" y2="20"/>
<line x1="0" x2="620" y1="110" y2="110"/>
${bars}</g>`
  })
  const height = STRIP_HEIGHT * shown.length + 20
  const label = `Admitted and refused requests over time, of ${shown.map(({ policy }) => policy).join(', ')}`
  return html`<figure><figcaption>Over time</figcaption>
<svg viewBox="0 0 760 ${height}" role="img" aria-label="${label}">
${strips}
<text x="0" y="${height - 4}">${buckets[0]?.from}</text>
<text x="620" y="${height - 4}" text-anchor="end">${buckets.at(-1)?.from}</text>
</svg></figure>`
}
