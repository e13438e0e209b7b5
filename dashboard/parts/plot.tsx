import { useState } from 'preact/hooks'
import { formatCount, formatMinute } from '../words.ts'

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

/** Units of the drawing, which the style sheet stretches to the room there is. */
const WIDTH = 1_000
const HEIGHT = 220
/** Distinguishes lines not by color alone. */
const DASHES = [undefined, '6 4'] as const

/** Lines over time; the values of the moment under the pointer, or of the last one, are below. */
export function Plot({ label, seconds, lines }: PlotProps) {
  const [pointed, setPointed] = useState<number>()
  const last = seconds.length - 1
  const shown = Math.min(pointed ?? last, last)
  const max = Math.max(1, ...lines.flatMap(({ values }) => values))
  const toX = (index: number) => (last > 0 ? (index / last) * WIDTH : 0)
  const toY = (value: number) => HEIGHT * (1 - value / max)
  const toMoment = (index: number) => formatMinute((seconds[index] ?? 0) * 1_000)
  const point = ({ currentTarget, clientX }: PointerEvent & { readonly currentTarget: SVGSVGElement }) => {
    const { left, width } = currentTarget.getBoundingClientRect()
    setPointed(Math.max(0, Math.round(((clientX - left) / width) * last)))
  }
  if (last < 0) return null
  return (
    <div class="plot" role="img" aria-label={label}>
      <div class="scale quiet">
        <span>{formatCount(max)}</span>
        <span>0</span>
      </div>
      <svg
        aria-hidden="true"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        onPointerMove={point}
        onPointerLeave={() => setPointed(undefined)}
      >
        <path class="grid" d={[0, 0.5, 1].map((share) => `M0 ${share * HEIGHT}H${WIDTH}`).join('')} />
        {pointed !== undefined && <path class="grid" d={`M${toX(shown)} 0V${HEIGHT}`} />}
        {lines.map(({ name, color, values }, at) => (
          <polyline
            key={name}
            points={values.map((value, index) => `${toX(index)},${toY(value)}`).join(' ')}
            style={{ stroke: `var(${color})` }}
            stroke-dasharray={DASHES[at]}
          />
        ))}
      </svg>
      <div class="times quiet">
        <span>{toMoment(0)}</span>
        <span>{toMoment(last)}</span>
      </div>
      <p class="legend">
        <span class="quiet">{toMoment(shown)}</span>
        {lines.map(({ name, color, values }, at) => (
          <span key={name}>
            <svg aria-hidden="true" viewBox="0 0 24 8" width="24" height="8">
              <path d="M0 4H24" style={{ stroke: `var(${color})` }} stroke-dasharray={DASHES[at]} />
            </svg>{' '}
            {name} {formatCount(values[shown] ?? 0)}
          </span>
        ))}
      </p>
    </div>
  )
}
