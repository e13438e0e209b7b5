export interface FigureProps {
  readonly name: string
  readonly value: string
  readonly tone?: 'good' | 'bad' | undefined
  /** How often something happened that is bad. */
  readonly faults?: number
}

/** One figure, in a list of them. */
export function Figure({ name, value, faults = 0, tone = faults > 0 ? 'bad' : undefined }: FigureProps) {
  return (
    <div class={`figure ${tone ?? ''}`}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}
