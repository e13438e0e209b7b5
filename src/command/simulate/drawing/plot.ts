import { type PlotOptions, plot } from '@observablehq/plot'
import { parseHTML } from 'linkedom'
import { WIDTH } from './style.ts'

/** A drawing, and how high it is. */
export interface Plotted {
  /** An `svg` element, well-formed as XML, too. */
  readonly svg: string
  readonly height: number
}

/** Draws on no page: into the text of an `svg` element. @param label what it shows, for who cannot see it */
export function drawPlot(label: string, { height = 200, ...options }: PlotOptions & { height?: number }): Plotted {
  // A document of its own, so that none grows.
  const { document } = parseHTML('<!doctype html><html><body></body></html>')
  const element = plot({
    ...options,
    document: document as unknown as NonNullable<PlotOptions['document']>,
    width: WIDTH,
    height,
    ariaLabel: label,
    className: 'plot',
  }) as unknown as {
    setAttribute(name: string, value: string): void
    querySelector(name: string): { remove(): void } | null
    querySelectorAll(name: string): Iterable<{ removeAttribute(name: string): void }>
    outerHTML: string
  }
  element.setAttribute('role', 'img')
  // An image is read as a whole: names of its parts would be wrong.
  for (const part of element.querySelectorAll('g[aria-label]')) part.removeAttribute('aria-label')
  // The page has its own style.
  element.querySelector('style')?.remove()
  const svg = element.outerHTML.replace(/fill="--(\w+)"/g, 'class="$1"')
  return { svg, height }
}
