import { lstatSync, statSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { CommandError } from '../command-error.ts'
import { escapeControls } from '../terminal.ts'
import type { Result } from './report.ts'

interface Report {
  readonly lines: readonly string[]
  readonly results: readonly Result[]
}

/** @throws {CommandError} unless the file may be created, or replaced */
export function checkOutFile(file: string, cwd: string, isForced: boolean): void {
  if (!file.endsWith('.html')) {
    throw new CommandError(`--out: expected a name that ends in .html, got ${JSON.stringify(file)}`)
  }
  const folder = dirname(resolve(cwd, file))
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new CommandError(`--out: there is no folder ${folder}`)
  }
  if (!isForced && lstatSync(resolve(cwd, file), { throwIfNoEntry: false })) throw alreadyThere(file)
}

/**
 * Writes the page into a new file.
 * @param isForced replaces a file or a link of this name, but not the target of the link
 * @throws {CommandError}
 */
export async function writeOutFile(file: string, cwd: string, isForced: boolean, report: Report): Promise<void> {
  const path = resolve(cwd, file)
  try {
    if (isForced) await rm(path, { force: true })
    // Escaped, so that nothing in it ends the element that holds it.
    const json = escapeControls(JSON.stringify(report)).replaceAll('<', String.raw`\u003c`)
    const page = PAGE.replace('{}', () => json)
    await writeFile(path, page, { flag: 'wx' })
  } catch (error) {
    const { code, name } = error as NodeJS.ErrnoException
    throw code === 'EEXIST' ? alreadyThere(file) : new CommandError(`--out: ${file} cannot be written: ${code ?? name}`)
  }
}

function alreadyThere(file: string): CommandError {
  return new CommandError(`--out: ${file} is there already`, { hint: 'Give another name, or --force to replace it.' })
}

/** Draws itself from the JSON in it, and needs nothing else. The colours suit colour-blind readers, too. */
const PAGE = String.raw`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<title>What limits would do</title>
<style>
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
i { display: block; height: 4px; margin-left: auto; background: currentColor; }
</style>
</head>
<body>
<main>
<h1>What limits would do</h1>
<noscript>A script in this page draws it.</noscript>
</main>
<script type="application/json" id="report">{}</script>
<script>
const { lines, results } = JSON.parse(document.getElementById('report').textContent)
const SVG = 'http://www.w3.org/2000/svg'
const KINDS = ['admitted', 'refused']
const number = (value) => value.toLocaleString('en')
const seconds = (ms) => (ms === null ? '–' : number(ms / 1000) + ' s')
const shorten = (text) => (text.length > 40 ? text.slice(0, 39) + '…' : text)

const add = (parent, name, text = '', attributes = {}) => {
  const element = parent.appendChild(document.createElementNS(name === 'svg' ? SVG : parent.namespaceURI, name))
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value)
  element.textContent = text.replace(/[\p{Cc}\p{Cs}]/gu, '\ufffd')
  return element
}

/** Adds a table of objects with the same members; numbers may have a bar of a colour beneath. */
const addTable = (parent, title, rows, colours = {}) => {
  if (rows.length === 0) return
  const max = Math.max(1, ...rows.flatMap((row) => Object.keys(colours).map((name) => row[name] ?? 0)))
  // Tables that are too wide are scrolled, by keys as well.
  const frame = add(parent, 'div', '', { class: 'wide', tabindex: 0, role: 'group', 'aria-label': title })
  const table = add(frame, 'table')
  add(table, 'caption', title)
  const head = add(add(table, 'thead'), 'tr')
  const body = add(table, 'tbody')
  const lines = rows.map(() => add(body, 'tr'))
  for (const [name, first] of Object.entries(rows[0])) {
    const side = typeof first === 'number' ? 'number' : 'text'
    add(head, 'th', name, { scope: 'col', class: side })
    rows.forEach(({ [name]: value }, at) => {
      const cell = add(lines[at], 'td', typeof value === 'number' ? number(value) : value, { class: side })
      if (colours[name]) add(cell, 'i', '', { class: colours[name], style: 'width: ' + (6 * value) / max + 'rem' })
    })
  }
}

/** Draws a strip for all requests, and one for each of the policies that refused most. */
const addTimeline = (parent, { policies, buckets }) => {
  const counted = policies.map((policy, index) => ({ ...policy, of: (bucket) => bucket.policies[index] }))
  const shown = counted.filter(({ requests }) => requests > 0).sort((a, b) => b.refused - a.refused).slice(0, 8)
  // One policy counts what all requests are, and says so twice.
  const strips = shown.length === 1 ? shown : [{ policy: 'all requests', of: (bucket) => bucket }, ...shown]
  const names = strips.map(({ policy }) => policy).join(', ')
  const height = 110 * strips.length + 20
  const figure = add(parent, 'figure')
  add(figure, 'figcaption', 'Over time')
  const label = 'Admitted and refused requests over time, of ' + names
  const svg = add(figure, 'svg', '', { viewBox: '0 0 760 ' + height, role: 'img', 'aria-label': label })
  const max = Math.max(1, ...strips.flatMap(({ of }) => buckets.map((each) => of(each).admitted + of(each).refused)))
  const width = 620 / buckets.length
  strips.forEach(({ policy, of }, at) => {
    const floor = 110 * (at + 1)
    add(svg, 'text', shorten(policy), { x: 0, y: floor - 95 })
    add(svg, 'text', number(max) + ' requests', { x: 630, y: floor - 80 })
    for (const y of [floor - 90, floor]) add(svg, 'line', '', { x1: 0, x2: 620, y1: y, y2: y })
    buckets.forEach((bucket, index) => {
      let y = floor
      for (const kind of KINDS) {
        const count = of(bucket)[kind]
        const tall = (90 * count) / max
        y -= tall
        if (count === 0) continue
        const bar = add(svg, 'rect', '', { class: kind, x: index * width, y, width, height: tall })
        add(bar, 'title', bucket.from + ': ' + number(count) + ' ' + kind)
      }
    })
  })
  add(svg, 'text', buckets[0].from, { x: 0, y: height - 4 })
  add(svg, 'text', buckets.at(-1).from, { x: 620, y: height - 4, 'text-anchor': 'end' })
}

const formatVariant = ({ limits, algorithm, leases }) =>
  [limits, algorithm, leases && 'leases ' + leases].filter(Boolean).join(', ') || 'as configured'

const BARS = { admitted: 'admitted', refused: 'refused', calls: 'admitted' }
const summarize = (result) => ({
  variant: formatVariant(result),
  admitted: result.admitted,
  refused: result.refused,
  'not counted': result.rejected,
  share: ((100 * result.refused) / Math.max(1, result.admitted + result.refused)).toFixed(1) + '%',
  'median wait': seconds(result.wait.medianMs),
  '95th of 100': seconds(result.wait.p95Ms),
  longest: seconds(result.wait.longestMs),
  calls: result.calls,
  commands: result.commands,
  dollars: result.dollars.toFixed(2),
})

const main = document.querySelector('main')
const list = add(main, 'ul')
for (const line of lines) add(list, 'li', line)
const key = add(main, 'p')
for (const kind of KINDS) add(key, 'span', '■ ' + kind + ' ', { class: kind })
addTable(main, 'In numbers', results.map(summarize), BARS)
for (const result of results) {
  const { policies, callers, buckets, bucketMs } = result
  const section = add(main, 'section')
  add(section, 'h2', formatVariant(result))
  if (buckets.length > 0) addTimeline(section, result)
  addTable(section, 'Policies', policies, BARS)
  addTable(section, 'Callers refused most', callers, BARS)
  const details = add(section, 'details')
  add(details, 'summary', 'Over time, in numbers')
  const counts = buckets.map(({ from, admitted, refused, policies: each }) => {
    const named = policies.flatMap(({ policy }, at) => KINDS.map((kind) => [policy + ': ' + kind, each[at][kind]]))
    return { from, admitted, refused, ...Object.fromEntries(named) }
  })
  addTable(details, 'Requests in each ' + seconds(bucketMs), counts)
}
</script>
</body>
</html>
`
