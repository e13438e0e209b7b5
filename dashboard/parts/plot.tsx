/** A chart of counts over time, stacked, with ticks, which pointer and keyboard read. */
import { useState } from 'preact/hooks'
import { formatCompact, formatCount, formatMinute, formatTime } from '../words.ts'

export interface Series {
  readonly name: string
  /** One for each moment. */
  readonly values: readonly number[]
}

export interface PlotProps {
  /** What it shows, for those who do not see it. */
  readonly label: string
  /** Milliseconds since the Unix epoch, ascending and evenly spaced. */
  readonly moments: readonly number[]
  /** At most as many as the style sheet has colors for, the one at the bottom first. */
  readonly series: readonly Series[]
}

/** Units of the drawing, which the style sheet stretches to the room there is. */
const WIDTH = 1_000
const HEIGHT = 200
const TIME_TICKS = 4

export function Plot({ label, moments, series }: PlotProps) {
  const [pointed, setPointed] = useState<number>()
  const last = moments.length - 1
  if (last < 0) return null
  const shown = Math.min(pointed ?? last, last)
  const ticks = listTicks(Math.max(...moments.map((_, at) => sumAt(series, at))))
  const max = ticks.at(-1) ?? 1
  const step = WIDTH / moments.length
  const bars = series.map((_, layer) =>
    moments
      .map((_, at) => {
        const top = (HEIGHT * sumAt(series.slice(0, layer + 1), at)) / max
        const height = top - (HEIGHT * sumAt(series.slice(0, layer), at)) / max
        return height > 0 ? `M${at * step} ${HEIGHT - top}h${step * 0.8}v${height}h${-step * 0.8}z` : ''
      })
      .join(''),
  )
  const describe = (at: number) =>
    [
      formatMinute(moments[at] ?? 0),
      ...series.map(({ name, values }) => `${name} ${formatCount(values[at] ?? 0)}`),
    ].join(', ')
  const point = ({ currentTarget, clientX }: PointerEvent & { readonly currentTarget: HTMLElement }) => {
    const { left, width } = currentTarget.getBoundingClientRect()
    setPointed(Math.max(0, Math.min(last, Math.floor(((clientX - left) / width) * moments.length))))
  }
  const move = (event: KeyboardEvent) => {
    const next = { ArrowLeft: shown - 1, ArrowRight: shown + 1, Home: 0, End: last }[event.key]
    if (next === undefined) return
    event.preventDefault()
    setPointed(Math.max(0, Math.min(last, next)))
  }
  return (
    <section class="plot" aria-label={label}>
      <div class="scale" aria-hidden="true">
        {ticks.toReversed().map((tick) => (
          <span key={tick}>{formatCompact(tick)}</span>
        ))}
      </div>
      <div
        class="canvas"
        role="slider"
        tabIndex={0}
        aria-label="Moment"
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={shown}
        aria-valuetext={describe(shown)}
        onPointerMove={point}
        onPointerLeave={() => setPointed(undefined)}
        onBlur={() => setPointed(undefined)}
        onKeyDown={move}
      >
        <svg aria-hidden="true" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
          <path class="grid" d={ticks.map((tick) => `M0 ${HEIGHT * (1 - tick / max)}H${WIDTH}`).join('')} />
          {pointed !== undefined && (
            <path class="cursor" d={`M${shown * step} 0h${step * 0.8}V${HEIGHT}h${-step * 0.8}z`} />
          )}
          {series.map(({ name }, layer) => (
            <path key={name} class={`bar series-${layer}`} d={bars[layer]} />
          ))}
        </svg>
      </div>
      <div class="times" aria-hidden="true">
        {Array.from({ length: TIME_TICKS + 1 }, (_, at) => (
          <span key={at}>
            {formatTime(moments[Math.round((at / TIME_TICKS) * last)] ?? 0, (moments[last] ?? 0) - (moments[0] ?? 0))}
          </span>
        ))}
      </div>
      <ul class="legend" aria-hidden="true">
        <li class="quiet">{formatMinute(moments[shown] ?? 0)}</li>
        {series.map(({ name, values }, layer) => (
          <li key={name}>
            <i class={`swatch series-${layer}`} />
            {name} <b>{formatCount(values[shown] ?? 0)}</b>
          </li>
        ))}
      </ul>
    </section>
  )
}

function sumAt(series: readonly Series[], at: number): number {
  return series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0)
}

/** Lists round numbers from 0 to at least the maximum, at most six. */
function listTicks(max: number): readonly number[] {
  const rough = Math.max(1, max / 4)
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10) * power
  return Array.from({ length: Math.max(1, Math.ceil(max / step)) + 1 }, (_, at) => at * step)
}
