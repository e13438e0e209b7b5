export interface FigureProps {
  readonly name: string
  readonly value: string
  readonly tone?: 'good' | 'bad'
}

/** One figure, in a list of them. */
export function Figure({ name, value, tone }: FigureProps) {
  return (
    <div class={`figure ${tone ?? ''}`}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}
