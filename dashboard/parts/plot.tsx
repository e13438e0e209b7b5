import { useEffect, useRef } from 'preact/hooks'
import UPlot from 'uplot'

export interface Line {
  readonly name: string
  /** A custom property of the style sheet, e.g. `--good`. */
  readonly color: string
  /** One for each moment. */
  readonly values: readonly number[]
}

export interface PlotProps {
  /** What it shows, for those who do not see it. */
  readonly label: string
  /** Seconds since the Unix epoch. */
  readonly seconds: readonly number[]
  readonly lines: readonly Line[]
}

const HEIGHT = 220

/** Lines over time. It is as wide as there is room. */
export function Plot({ label, seconds, lines }: PlotProps) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot>(undefined)
  const isDark = useRef(matchMedia('(prefers-color-scheme: dark)'))

  useEffect(() => {
    const element = place.current
    if (!element) return
    const draw = () => {
      plot.current?.destroy()
      const style = getComputedStyle(element)
      // A canvas knows no custom properties, and takes no light-dark().
      const color = (name: string) => resolved(element, style.getPropertyValue(name))
      const axis = { stroke: color('--quiet'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false } }
      plot.current = new UPlot(
        {
          width: element.clientWidth,
          height: HEIGHT,
          cursor: { drag: { x: false, y: false } },
          legend: { live: true },
          series: [
            {},
            ...lines.map(({ name, color: of }, at) => ({
              label: name,
              stroke: color(of),
              width: 2,
              // Not by color alone.
              ...(at > 0 && { dash: [6, 4] }),
            })),
          ],
          scales: { y: { range: (_plot, _min, max) => [0, Math.max(max * 1.1, 1)] } },
          axes: [axis, { ...axis, size: 60 }],
        },
        [[...seconds], ...lines.map(({ values }) => [...values])],
        element,
      )
    }
    draw()
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }))
    observer.observe(element)
    const media = isDark.current
    media.addEventListener('change', draw)
    return () => {
      observer.disconnect()
      media.removeEventListener('change', draw)
      plot.current?.destroy()
    }
    // Drawn anew only if there are other lines; else it gets other data.
  }, [lines.map(({ name }) => name).join()])

  useEffect(() => {
    plot.current?.setData([[...seconds], ...lines.map(({ values }) => [...values])])
  }, [seconds, lines])

  return <div ref={place} class="plot" role="img" aria-label={label} />
}

/** A color as a canvas takes it. */
function resolved(element: HTMLElement, value: string): string {
  const probe = document.createElement('span')
  probe.style.color = value
  element.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
