import { useEffect, useState } from 'preact/hooks'
import type { PolicyInForce, Status } from '../answers.ts'
import { ask } from '../api.ts'
import { Figure } from '../parts/figure.tsx'
import { Scroll } from '../parts/scroll.tsx'
import { count, span } from '../words.ts'

export function Now({ status }: { status: Status | undefined }) {
  return (
    <>
      <h1>Now</h1>
      {status && <Figures status={status} />}
      <Policies />
    </>
  )
}

function Figures({ status }: { status: Status }) {
  const { store, shedLevel } = status
  const isWell = store.reachable !== false && store.circuit === 'closed'
  return (
    <dl class="figures" aria-label="The gateway, as one isolate sees it">
      <Figure name="Store" value={store.kind === 'redis' ? 'Redis' : 'in memory'} tone={isWell ? 'good' : 'bad'} />
      <Figure name="Round trip" value={store.rttMs === null ? 'no answer' : span(store.rttMs)} />
      <Figure name="Circuit" value={store.circuit} tone={store.circuit === 'closed' ? 'good' : 'bad'} />
      <Figure name="Shed level" value={shedLevel === null ? 'off' : shedLevel.toFixed(2)} />
    </dl>
  )
}

function Policies() {
  const [policies, setPolicies] = useState<readonly PolicyInForce[]>([])
  useEffect(() => {
    ask<{ policies: PolicyInForce[] }>('/admin/policies').then(
      (answer) => setPolicies(answer.policies),
      () => {},
    )
  }, [])
  return (
    <section aria-labelledby="policies">
      <h2 id="policies">Policies in force</h2>
      <Scroll label="Policies in force">
        <table>
          <thead>
            <tr>
              <th scope="col">policy</th>
              <th scope="col">limits</th>
              <th scope="col">counts by</th>
              <th scope="col">applies to</th>
              <th scope="col">mode</th>
            </tr>
          </thead>
          <tbody>
            {policies.map(({ name, tiers, by, match, mode }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{tiers.map(({ limit, windowMs }) => `${count(limit)} per ${span(windowMs)}`).join(', ')}</td>
                <td>{by.join(' + ')}</td>
                <td>{match ? match.join(', ') : 'everything'}</td>
                <td>{mode}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  )
}
