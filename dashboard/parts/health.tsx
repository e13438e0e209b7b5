/** A one-line summary of the gateway's health; each state has its own color and shape. */
import { findTone, type Sign } from '../signs.ts'

/** Shapes differ as much as the colors do. */
const SHAPES = {
  good: 'M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1zM4.5 8.2 7 10.6l4.5-5',
  warn: 'M8 1.5 15.5 14.5H.5zM8 6v4M8 12v.6',
  bad: 'M5 1h6l4 4v6l-4 4H5l-4-4V5zM5.5 5.5l5 5M10.5 5.5l-5 5',
  plain: 'M3 8h10',
  unknown: 'M5.5 6a2.5 2.5 0 1 1 3.6 2.3C8.3 8.8 8 9.3 8 10M8 13v.4',
} as const

export function Shape({ tone }: Pick<Sign, 'tone'>) {
  return (
    <svg class={`shape ${tone}`} aria-hidden="true" viewBox="0 0 16 16" width="16" height="16">
      <path d={SHAPES[tone]} />
    </svg>
  )
}

export function Health({ signs }: { signs: readonly Sign[] }) {
  const tone = findTone(signs)
  const list = (...tones: readonly Sign['tone'][]) =>
    signs
      .filter((sign) => tones.includes(sign.tone))
      .map(({ name, text }) => `${name}: ${text}`)
      .join('; ')
  const unknown = list('unknown')
  // What the line says is not said twice.
  const others = signs.filter((sign) => (tone === 'unknown' ? sign.tone !== 'unknown' : !/bad|warn/.test(sign.tone)))
  return (
    <section class={`health ${tone}`} aria-label="Health">
      <p>
        <Shape tone={tone} />
        <strong>
          {tone === 'good' && 'Nothing is wrong'}
          {tone === 'unknown' && `Not all is known yet. ${unknown}`}
          {(tone === 'bad' || tone === 'warn') && list('bad', 'warn')}
        </strong>
      </p>
      <dl>
        {others.map(({ name, text, tone }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <Shape tone={tone} />
              {text}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  )
}
