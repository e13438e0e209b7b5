import { useMemo, useState } from 'preact/hooks'
import type { PolicyOutcome } from '../../src/statistics/outcomes.ts'
import type { ActivePolicy, Counted, Status } from '../answers.ts'
import { dollarsOf, latencyOf, overTime, refusedOf, totalOf } from '../figures.ts'
import { Figure } from '../parts/figure.tsx'
import { Plot } from '../parts/plot.tsx'
import { numeric, Table } from '../parts/table.tsx'
import { usePolled } from '../parts/use-polled.ts'
import { count, countBetween, limitsOf, shareOf, span, storeName } from '../words.ts'

/** As often as isolates tell what they have counted. */
const COUNTED_EVERY_MS = 10_000
const POLICIES_EVERY_MS = 10_000

const RANGES = {
  'by=minute&periods=30': 'Last 30 minutes',
  'by=minute&periods=120': 'Last 2 hours',
  'by=hour&periods=24': 'Last 24 hours',
  'by=hour&periods=720': 'Last 30 days',
} as const
type Range = keyof typeof RANGES

export function Now({ status }: { status: Status | undefined }) {
  const { value: active } = usePolled<{ policies: ActivePolicy[] }>('/admin/policies', POLICIES_EVERY_MS)
  const policies = active?.policies ?? []
  const [range, setRange] = useState<Range>('by=minute&periods=30')
  const { value: counted, problem } = usePolled<Counted>(`/admin/statistics?${range}`, COUNTED_EVERY_MS)
  return (
    <>
      <h1>Overview</h1>
      {status && <Gateway status={status} />}
      <div class="heading">
        <h2 id="counted">Requests</h2>
        <label for="range">Period</label>
        <select id="range" value={range} onChange={(event) => setRange(event.currentTarget.value as Range)}>
          {Object.entries(RANGES).map(([name, title]) => (
            <option key={name} value={name}>
              {title}
            </option>
          ))}
        </select>
      </div>
      {problem && <p class="quiet">{problem.message}</p>}
      {counted && <Requests counted={counted} />}
      {counted && <Mirror counts={counted.total.mirror} />}
      <Policies policies={policies} counted={counted} />
      {counted && <MostRefusingLimits counted={counted} />}
      {counted && <MostRefused counted={counted} />}
    </>
  )
}

function Gateway({ status }: { status: Status }) {
  const { store, shedLevel } = status
  const isWell = store.reachable !== false && store.circuit === 'closed'
  return (
    <dl class="figures" aria-label="Gateway (this isolate)">
      <Figure name="Store" value={storeName(store.kind)} tone={isWell ? 'good' : 'bad'} />
      <Figure name="Latency" value={store.rttMs === null ? 'unavailable' : span(store.rttMs)} />
      <Figure name="Circuit" value={store.circuit} tone={store.circuit === 'closed' ? 'good' : 'bad'} />
      <Figure name="Shed level" value={shedLevel === null ? 'off' : shedLevel.toFixed(2)} />
    </dl>
  )
}

function Requests({ counted }: { counted: Counted }) {
  const { total, resolution } = counted
  const { seconds, lines } = useMemo(() => {
    const { seconds, values } = overTime(counted, ({ requests }) => requests.admitted)
    return {
      seconds,
      lines: [
        { name: 'admitted', color: '--accent', values },
        { name: 'refused', color: '--bad', values: overTime(counted, refusedOf).values },
      ],
    }
  }, [counted])
  const refused = refusedOf(total)
  const calls = total.store.calls
  return (
    <section aria-labelledby="counted">
      <dl class="figures">
        <Figure name="Admitted" value={count(total.requests.admitted)} />
        <Figure name="Refused" value={count(refused)} {...(refused > 0 && { tone: 'bad' as const })} />
        <Figure name="Store calls avoided" value={count(total.callsAvoided.refusalCache + total.callsAvoided.leases)} />
        <Figure name="Store calls" value={count(calls)} />
        <Figure name="Median latency" value={latencyOf(counted, 0.5)} />
        <Figure name="p99 latency" value={latencyOf(counted, 0.99)} />
        <Figure
          name="Failed store calls"
          value={count(total.store.failures)}
          {...(total.store.failures > 0 && { tone: 'bad' as const })}
        />
        <Figure name="Estimated cost" value={`$${dollarsOf(total).toFixed(4)}`} />
      </dl>
      <Plot
        label={`Requests by ${resolution}: ${count(total.requests.admitted)} admitted and ${count(refused)} refused`}
        seconds={seconds}
        lines={lines}
      />
    </section>
  )
}

/** Shown while the store is being moved. */
function Mirror({ counts }: { counts: Counted['total']['mirror'] }) {
  const { decisions, refusedByMirrorOnly, refusedByPrimaryOnly, failures } = counts
  if (decisions + failures === 0) return null
  const differing = refusedByMirrorOnly + refusedByPrimaryOnly
  const toneOf = (count: number) => (count > 0 ? { tone: 'bad' as const } : {})
  return (
    <section aria-labelledby="mirror">
      <h2 id="mirror">Mirror store</h2>
      <dl class="figures">
        <Figure name="Compared decisions" value={count(decisions)} />
        <Figure name="Agreement" value={shareOf(decisions - differing, decisions)} {...toneOf(differing)} />
        <Figure name="Refused by mirror only" value={count(refusedByMirrorOnly)} {...toneOf(refusedByMirrorOnly)} />
        <Figure name="Refused by primary only" value={count(refusedByPrimaryOnly)} {...toneOf(refusedByPrimaryOnly)} />
        <Figure name="Failed calls" value={count(failures)} {...toneOf(failures)} />
      </dl>
    </section>
  )
}

/** They add up to the last one. */
const OUTCOMES_SHOWN = ['admitted', 'limited', 'deprioritized or shed', 'refused by another', 'no decision', 'total']

function Policies({ policies, counted }: { policies: readonly ActivePolicy[]; counted: Counted | undefined }) {
  const numbers = (name: string) => {
    const rows = (counted?.total.policies ?? []).filter(({ policy }) => policy === name)
    const sumOf = (...outcomes: readonly PolicyOutcome[]) =>
      rows.reduce((sum, { requests }) => sum + outcomes.reduce((part, outcome) => part + requests[outcome], 0), 0)
    return [
      ...[sumOf('admitted'), sumOf('limited', 'shadow_limited'), sumOf('deprioritized', 'shed')],
      ...[sumOf('refused_by_another'), sumOf('unidentified', 'bad_request', 'unavailable')],
      rows.reduce((sum, { requests }) => sum + totalOf(requests), 0),
    ]
  }
  return (
    <section aria-labelledby="policies">
      <h2 id="policies">Active policies</h2>
      <Table
        label="Active policies"
        columns={[
          ...['policy', 'limits', 'counts by', 'routes', 'mode'],
          ...(counted ? OUTCOMES_SHOWN.map(numeric) : []),
        ]}
      >
        {policies.map((policy) => {
          const { name, by, match, mode } = policy
          return (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>
                {limitsOf(policy).map((line) => (
                  <div key={line}>{line}</div>
                ))}
              </td>
              <td>{by.join(' + ')}</td>
              <td>{match ? match.join(', ') : 'all'}</td>
              <td>{mode}</td>
              {counted &&
                numbers(name).map((number, at) => (
                  <td key={OUTCOMES_SHOWN[at]} class="number">
                    {count(number)}
                  </td>
                ))}
            </tr>
          )
        })}
      </Table>
    </section>
  )
}

function MostRefusingLimits({ counted: { total } }: { counted: Counted }) {
  return (
    <section aria-labelledby="limits">
      <h2 id="limits">Limits with most refusals</h2>
      {total.limits.length === 0 && <p class="quiet">No refusals.</p>}
      <ol class="bars">
        {total.limits.slice(0, 10).map(({ name, refusals }) => (
          <li key={name}>
            <span>{name}</span>
            <progress
              aria-label={`${name}: ${count(refusals)} refused`}
              max={total.limits[0]?.refusals}
              value={refusals}
            />
            <span class="number">{count(refusals)} refused</span>
          </li>
        ))}
      </ol>
    </section>
  )
}

function MostRefused({ counted: { refused } }: { counted: Counted }) {
  return (
    <section aria-labelledby="refused">
      <h2 id="refused">Most refused callers</h2>
      {refused.callers.length === 0 ? (
        <p class="quiet">No refusals.</p>
      ) : (
        <Table label="Most refused callers" columns={['caller', 'policy', numeric('refused')]}>
          {refused.callers.slice(0, 20).map(({ digest, policy, min, max, label, shared }) => (
            <tr key={`${policy} ${digest}`}>
              <th scope="row">
                {shared ? (
                  'everyone'
                ) : (
                  <a href={`#caller/${encodeURIComponent(digest)}/${encodeURIComponent(policy)}`}>
                    <code>{digest}</code>
                  </a>
                )}
                {label !== undefined && !shared && <span class="quiet"> {label}</span>}
              </th>
              <td>{policy}</td>
              <td class="number">{countBetween(min, max)}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  )
}
