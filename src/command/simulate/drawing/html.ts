import { COMPARED, comparedRows, nameOf, number, type Result, span, triedIn } from '../report.ts'
import { type Chart, chartsOf, chartsOfAll } from './charts.ts'
import { escaped, STYLE, WIDTH } from './style.ts'

/** What is drawn. */
export interface Report {
  readonly title: string
  /** What was replayed, and where that cannot be relied on. */
  readonly lines: readonly string[]
  readonly results: readonly Result[]
}

const PAGE_STYLE = `
body { margin: 0 auto; max-width: ${WIDTH}px; padding: 1.5rem 1rem; line-height: 1.5; }
figure { margin: 1rem 0; }
figcaption, caption { font-weight: 600; text-align: left; }
caption, .number { white-space: nowrap; }
.key { display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.3em 0 1em; }
.key.admitted { background: var(--admitted); }
.key.refused { background: var(--refused); }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.8rem 0.2rem 0; border-bottom: 1px solid var(--line); text-align: left; }
.number { text-align: right; }
`

/** A page that needs nothing else: drawings, and the numbers beneath them. */
export function htmlOf({ title, lines, results }: Report): string {
  return `<!doctype html>
<html lang="en" class="page">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)}</title>
<style>${STYLE}${PAGE_STYLE}</style>
</head>
<body>
<main>
<h1>${escaped(title)}</h1>
<ul>
${lines.map((line) => `<li>${escaped(line)}</li>`).join('\n')}
</ul>
<p><span class="key admitted"></span>admitted<span class="key refused"></span>refused</p>
${results.length > 1 ? comparison(results) : ''}
${results.map(sectionOf).join('\n')}
</main>
</body>
</html>
`
}

function comparison(results: readonly Result[]): string {
  const tried = triedIn(results)
  return `<section>
<h2>Side by side</h2>
${chartsOfAll(results).map(figureOf).join('\n')}
${tableOf('The variants in numbers', [...tried, ...COMPARED], comparedRows(results, tried), tried.length)}
</section>`
}

function sectionOf(result: Result): string {
  const { policies, callers, wait, rejected, buckets } = result
  const numbers = comparedRows([result], [])[0] ?? []
  const names = policies.map(({ policy }) => policy)
  return `<section>
<h2>${escaped(nameOf(result))}</h2>
${chartsOf(result).map(figureOf).join('\n')}
${tableOf('In numbers', [...COMPARED, 'not counted'], [[...numbers, number(rejected)]], 0)}
${tableOf(
  'Policies',
  ['policy', 'mode', 'requests', 'admitted', 'refused'],
  policies.map(({ policy, mode, requests, admitted, refused }) => [
    ...[policy, mode],
    ...[requests, admitted, refused].map(number),
  ]),
  2,
)}
${
  callers.length === 0
    ? ''
    : tableOf(
        `Refused most (half of all refused wait ${span(wait.medianMs)} or less)`,
        ['policy', 'caller', 'refused'],
        callers.map(({ policy, digest, caller, refused }) => [policy, caller ?? digest, number(refused)]),
        2,
      )
}
<details>
<summary>Over time, in numbers</summary>
${tableOf(
  `Requests in each ${span(result.bucketMs)}`,
  ['from', 'admitted', 'refused', ...names.flatMap((name) => [`${name}: admitted`, `${name}: refused`])],
  buckets.map(({ from, admitted, refused, policies }) => [
    from,
    ...[admitted, refused, ...policies.flatMap((counts) => [counts.admitted, counts.refused])].map(number),
  ]),
  1,
)}
</details>
</section>`
}

function figureOf({ title, svg }: Chart): string {
  return `<figure><figcaption>${escaped(title)}</figcaption>${svg}</figure>`
}

/** @param names columns that hold no numbers, which come first */
function tableOf(
  caption: string,
  header: readonly string[],
  rows: readonly (readonly string[])[],
  names: number,
): string {
  const cells = (row: readonly string[], tag: 'th' | 'td') =>
    row
      .map((text, at) => {
        const kind = `${tag === 'th' ? ' scope="col"' : ''}${at < names ? '' : ' class="number"'}`
        return `<${tag}${kind}>${escaped(text)}</${tag}>`
      })
      .join('')
  // Tables that are too wide are scrolled, by keys as well.
  return `<div class="wide" tabindex="0" role="group" aria-label="${escaped(caption)}"><table>
<caption>${escaped(caption)}</caption>
<thead><tr>${cells(header, 'th')}</tr></thead>
<tbody>
${rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('\n')}
</tbody>
</table></div>`
}
