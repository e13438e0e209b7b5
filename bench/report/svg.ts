/** Plots without a background of their own, in colors that show on a light and on a dark one. */

const TEXT = '#808890'
const GRID = '#80889055'
const COLORS = ['#2f81f7', '#e5534b', '#d29922', '#8a63d2', '#3fa34d', '#808890']
const FONT = 'font-family="system-ui, sans-serif" font-size="13"'

export interface BarChart {
  readonly title: string
  readonly bars: readonly { readonly name: string; readonly value: number }[]
  readonly format: (value: number) => string
  /** Draws a line at this value. */
  readonly mark: number
}

/** Horizontal bars. */
export function drawBars({ title, bars, format, mark }: BarChart): string {
  const [left, width, height, pitch, top] = [250, 440, 14, 28, 40]
  const max = Math.max(mark, ...bars.map(({ value }) => value))
  const x = (value: number) => left + (value / max) * width
  const bottom = top + bars.length * pitch
  const parts = bars.flatMap(({ name, value }, index) => {
    const y = top + index * pitch
    return [
      drawText(left - 8, y + 12, name, 'end'),
      `<rect x="${left}" y="${y}" width="${round(x(value) - left)}" height="${height}" fill="${COLORS[0]}"/>`,
      drawText(x(value) + 5, y + 11, format(value)),
    ]
  })
  return wrapDocument(left + width + 70, bottom + 6, [
    drawText(8, 20, title, 'start', ' font-weight="600"'),
    ...parts,
    drawLine(x(mark), top - 4, x(mark), bottom, TEXT, ' stroke-dasharray="4 3"'),
  ])
}

export interface LineChart {
  readonly title: string
  readonly xLabel: string
  readonly series: readonly { readonly name: string; readonly points: readonly (readonly [x: number, y: number])[] }[]
}

/** Lines over two logarithmic axes. */
export function drawLines({ title, xLabel, series }: LineChart): string {
  const [left, top, width, height] = [84, 40, 380, 260]
  const all = series.flatMap(({ points }) => points)
  const [xLow, xHigh] = findDecades(all.map(([x]) => x))
  const [yLow, yHigh] = findDecades(all.map(([, y]) => y))
  const x = (value: number) => left + ((Math.log10(value) - xLow) / (xHigh - xLow)) * width
  const y = (value: number) => top + height - ((Math.log10(value) - yLow) / (yHigh - yLow)) * height
  const ticks = (low: number, high: number) => Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index))
  const parts = [
    drawText(8, 20, title, 'start', ' font-weight="600"'),
    ...ticks(yLow, yHigh).flatMap((value) => [
      drawLine(left, y(value), left + width, y(value), GRID),
      drawText(left - 8, y(value) + 4, value.toLocaleString('en'), 'end'),
    ]),
    ...ticks(xLow, xHigh).map((value) => drawText(x(value), top + height + 18, value.toLocaleString('en'), 'middle')),
    drawText(left + width / 2, top + height + 38, xLabel, 'middle'),
    ...series.flatMap(({ name, points }, index) => {
      const color = COLORS[index]
      const path = points.map(([px, py]) => `${round(x(px))},${round(y(py))}`).join(' ')
      const dots = points.map(
        ([px, py]) => `<circle cx="${round(x(px))}" cy="${round(y(py))}" r="3.5" fill="${color}"/>`,
      )
      const stroke = `<polyline points="${path}" fill="none" stroke="${color}" stroke-width="2"/>`
      return [stroke, ...dots, drawKey(left + width + 24, top + 12 + index * 22, color, name)]
    }),
  ]
  return wrapDocument(left + width + 280, top + height + 48, parts)
}

function findDecades(values: readonly number[]): [low: number, high: number] {
  return [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))]
}

function wrapDocument(width: number, height: number, parts: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ${FONT} fill="${TEXT}">\n${parts.join('\n')}\n</svg>\n`
}

function drawKey(x: number, y: number, color: string | undefined, name: string): string {
  return `<rect x="${x}" y="${y - 10}" width="12" height="12" fill="${color}"/>${drawText(x + 18, y + 1, name)}`
}

function drawLine(x1: number, y1: number, x2: number, y2: number, stroke: string, more = ''): string {
  return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke="${stroke}"${more}/>`
}

function drawText(x: number, y: number, words: string, anchor = 'start', more = ''): string {
  const safe = words.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}"${more}>${safe}</text>`
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
