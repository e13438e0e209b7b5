import { nameOf, type Result } from '../report.ts'
import { type Chart, chartsOf, chartsOfAll } from './charts.ts'
import type { Report } from './html.ts'
import { escaped, STYLE, WIDTH } from './style.ts'

const MARGIN = 24
const LINE = 28

/** All drawings one below the other, as a file of SVG. */
export function svgOf({ title, lines, results }: Report): string {
  let y = MARGIN
  const parts: string[] = []
  const write = (size: number, words: string) => {
    y += LINE
    parts.push(`<text x="${MARGIN}" y="${y - 8}" font-size="${size}" fill="currentColor">${escaped(words)}</text>`)
  }
  const draw = ({ title, svg, height }: Chart) => {
    write(14, title)
    parts.push(svg.replace('<svg ', `<svg x="${MARGIN}" y="${y}" `))
    y += height
  }
  write(20, title)
  for (const line of lines) write(12, line)
  parts.push(
    ...(['admitted', 'refused'] as const).map(
      (kind, at) =>
        `<rect class="${kind}" x="${MARGIN + 110 * at}" y="${y + 4}" width="12" height="12"/><text x="${MARGIN + 18 + 110 * at}" y="${y + 14}" font-size="12" fill="currentColor">${kind}</text>`,
    ),
  )
  y += LINE
  for (const chart of chartsOfAll(results)) draw(chart)
  for (const result of results) {
    write(17, headOf(result))
    for (const chart of chartsOf(result)) draw(chart)
  }
  const [width, height] = [WIDTH + 2 * MARGIN, y + MARGIN]
  return `<svg xmlns="http://www.w3.org/2000/svg" class="page" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title what" font-family="system-ui, sans-serif">
<title id="title">${escaped(title)}</title>
<desc id="what">${escaped(lines.join('; '))}</desc>
<style>${STYLE}.whole { fill: var(--back); }</style>
<rect class="whole" width="100%" height="100%"/>
${parts.join('\n')}
</svg>
`
}

function headOf(result: Result): string {
  const { admitted, refused } = result
  return `${nameOf(result)}: ${admitted.toLocaleString('en')} admitted, ${refused.toLocaleString('en')} refused`
}
