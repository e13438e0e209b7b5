/** Overview: whether anything is wrong, who is refused by what, and how the store is. */
import { useMemo, useState } from 'preact/hooks'
import type { PolicyOutcome } from '../../src/gateway/statistics/outcomes.ts'
import type { ActivePolicy, Counted, Policies as PoliciesAnswer, Status } from '../answers.ts'
import { estimateDollars, listOverTime, listRefusals, readLatency, sumRefused } from '../figures.ts'
import { CallerLink } from '../parts/caller-link.tsx'
import { DataTable } from '../parts/data-table.tsx'
import { Events } from '../parts/events.tsx'
import { Figure } from '../parts/figure.tsx'
import { Health } from '../parts/health.tsx'
import { Moment } from '../parts/moment.tsx'
import { Plot } from '../parts/plot.tsx'
import { usePolled } from '../parts/use-polled.ts'
import { listSigns } from '../signs.ts'
import { describeLimits, formatCount, formatRange, formatShare, formatSpan, formatStore } from '../words.ts'

/** Twice as often as isolates send what they have counted. */
const COUNTED_EVERY_MS = 10_000
const POLICIES_EVERY_MS = 10_000
const BEFORE_EVERY_MS = 60_000
const MAX_CALLERS = 50

const RANGES = {
  'by=minute&periods=30': 'Last 30 minutes',
  'by=minute&periods=120': 'Last 2 hours',
  'by=hour&periods=24': 'Last 24 hours',
  'by=hour&periods=720': 'Last 30 days',
} as const
type Range = keyof typeof RANGES

/** The range and as much before it. */
const WITH_BEFORE: Readonly<Record<Range, string>> = {
  'by=minute&periods=30': 'by=minute&periods=60',
  'by=minute&periods=120': 'by=minute&periods=240',
  'by=hour&periods=24': 'by=hour&periods=48',
  'by=hour&periods=720': 'by=hour&periods=1440',
}

export function Now({ status }: { status: Status | undefined }) {
  const { value: active } = usePolled<PoliciesAnswer>('/admin/policies', POLICIES_EVERY_MS)
  const [range, setRange] = useState<Range>('by=minute&periods=30')
  const { value: counted, problem } = usePolled<Counted>(`/admin/statistics?${range}`, COUNTED_EVERY_MS)
  const { value: longer } = usePolled<Counted>(`/admin/statistics?${WITH_BEFORE[range]}`, BEFORE_EVERY_MS)
  return (
    <>
      <div class="heading">
        <h1 tabIndex={-1}>Overview</h1>
        <label class="unseen" for="range">
          Period
        </label>
        <select id="range" value={range} onChange={(event) => setRange(event.currentTarget.value as Range)}>
          {Object.entries(RANGES).map(([name, title]) => (
            <option key={name} value={name}>
              {title}
            </option>
          ))}
        </select>
      </div>
      <Health signs={listSigns({ status, active, counted, longer, problem: problem?.message })} />
      {counted && <Requests counted={counted} />}
      {counted && (
        <div class="pair">
          <MostRefused counted={counted} />
          <MostRefusingLimits policies={active?.policies ?? []} counted={counted} />
        </div>
      )}
      {counted && <Events counted={counted} />}
      <Policies policies={active?.policies} counted={counted} />
      {status && <Store status={status} counted={counted} period={RANGES[range].toLowerCase()} />}
      {counted && <Mirror counts={counted.total.mirror} />}
    </>
  )
}

function Requests({ counted }: { counted: Counted }) {
  const { total, resolution } = counted
  const { moments, series } = useMemo(() => {
    const { moments } = listOverTime(counted, () => 0)
    const series = listRefusals(counted).map(({ name, count }) => ({
      name,
      values: listOverTime(counted, count).values,
    }))
    return { moments, series }
  }, [counted])
  const refused = sumRefused(total)
  const { admitted } = total.requests
  return (
    <section aria-labelledby="counted">
      <h2 id="counted">Refusals by policy</h2>
      <dl class="figures">
        <Figure name="Refused" value={formatCount(refused)} />
        <Figure name="Admitted" value={formatCount(admitted)} />
      </dl>
      <Plot
        label={`Requests by ${resolution}: ${formatCount(admitted)} admitted and ${formatCount(refused)} refused`}
        moments={moments}
        series={series}
      />
      <p class="quiet">
        Counts arrive every 20 seconds.{resolution === 'minute' && ' The current minute is drawn once it is over.'}
      </p>
    </section>
  )
}

interface StoreProps {
  readonly status: Status
  readonly counted: Counted | undefined
  /** Which one was counted. */
  readonly period: string
}

function Store({ status, counted, period }: StoreProps) {
  const { store, shedLevel } = status
  const tones = { answers: 'good', unknown: undefined, slow: 'bad', failing: 'bad', unavailable: 'bad' } as const
  return (
    <section aria-labelledby="store">
      <h2 id="store">Store</h2>
      <dl class="figures" aria-label="Gateway (this isolate)">
        <Figure name="Store" value={formatStore(store)} tone={tones[store.state]} />
        <Figure name="Latency now" value={store.rttMs === null ? 'no answer' : formatSpan(store.rttMs)} />
        {store.reachable !== false && (
          <Figure name="Circuit" value={store.circuit} tone={store.circuit === 'closed' ? 'good' : 'bad'} />
        )}
        <Figure name="Shed level" value={shedLevel === null ? 'off' : shedLevel.toFixed(2)} />
        {counted && <StoreFigures counted={counted} period={period} />}
      </dl>
    </section>
  )
}

function StoreFigures({ counted, period }: { counted: Counted; period: string }) {
  const { total } = counted
  const { calls, failures } = total.store
  return (
    <>
      <Figure name="Decision by the store, p50" value={readLatency(counted, 0.5)} />
      <Figure name="Decision by the store, p99" value={readLatency(counted, 0.99)} />
      <Figure name="Store calls" value={formatCount(calls)} />
      <Figure
        name="Store calls avoided"
        value={formatCount(total.callsAvoided.refusalCache + total.callsAvoided.leases)}
      />
      <Figure name="Failed store calls" value={formatCount(failures)} faults={failures} />
      <Figure name="Error rate" value={formatShare(failures, calls)} faults={failures} />
      <Figure name={`Estimated cost, ${period}`} value={`$${estimateDollars(total).toFixed(4)}`} />
    </>
  )
}

/** Shown while the store is being moved. */
function Mirror({ counts }: { counts: Counted['total']['mirror'] }) {
  const { decisions, refusedByMirrorOnly, refusedByPrimaryOnly, failures } = counts
  if (decisions + failures === 0) return null
  const differing = refusedByMirrorOnly + refusedByPrimaryOnly
  return (
    <section aria-labelledby="mirror">
      <h2 id="mirror">Mirror store</h2>
      <dl class="figures">
        <Figure name="Compared decisions" value={formatCount(decisions)} />
        <Figure name="Agreement" value={formatShare(decisions - differing, decisions)} faults={differing} />
        <Figure name="Refused by mirror only" value={formatCount(refusedByMirrorOnly)} faults={refusedByMirrorOnly} />
        <Figure
          name="Refused by primary only"
          value={formatCount(refusedByPrimaryOnly)}
          faults={refusedByPrimaryOnly}
        />
        <Figure name="Failed calls" value={formatCount(failures)} faults={failures} />
      </dl>
    </section>
  )
}

/** Requests of a policy by outcome. */
const OUTCOMES_SHOWN = {
  admitted: ['admitted'],
  limited: ['limited'],
  'would limit': ['shadow_limited'],
  'deprioritized or shed': ['deprioritized', 'shed'],
  'refused by another': ['refused_by_another'],
  'no identity (401)': ['unidentified'],
  'bad request (400)': ['bad_request'],
  'unavailable (503)': ['unavailable'],
} as const satisfies Readonly<Record<string, readonly PolicyOutcome[]>>

interface PoliciesProps {
  /** Undefined: not known yet. */
  readonly policies: readonly ActivePolicy[] | undefined
  readonly counted: Counted | undefined
}

function Policies({ policies, counted }: PoliciesProps) {
  if (!policies) {
    return (
      <section aria-labelledby="policies">
        <h2 id="policies">Active policies</h2>
        <p class="quiet">Loading…</p>
      </section>
    )
  }
  const countOutcomes = ({ name }: ActivePolicy, outcomes: readonly PolicyOutcome[]) =>
    (counted?.total.policies ?? [])
      .filter(({ policy }) => policy === name)
      .reduce((sum, { requests }) => sum + outcomes.reduce((part, outcome) => part + requests[outcome], 0), 0)
  // A column of nothing but zeros is noise, but for the two that everybody looks for.
  const isShown = ([name, outcomes]: readonly [string, readonly PolicyOutcome[]]) =>
    name === 'admitted' || name === 'limited' || policies.some((policy) => countOutcomes(policy, outcomes) > 0)
  const outcomes = Object.entries(OUTCOMES_SHOWN)
    .filter(isShown)
    .map(([name, outcomes]) => ({
      name,
      value: (policy: ActivePolicy) => countOutcomes(policy, outcomes),
      cell: (policy: ActivePolicy) => formatCount(countOutcomes(policy, outcomes)),
    }))
  const countUnits = (policy: ActivePolicy) =>
    counted?.total.units.find((each) => each.policy === policy.name)?.units ?? countOutcomes(policy, ['admitted'])
  const hasUnits = policies.some((policy) => countUnits(policy) !== countOutcomes(policy, ['admitted']))
  const findLastMs = ({ name }: ActivePolicy) => counted?.recent.find(({ policy }) => policy === name)?.atMs ?? 0
  const lastRefused = {
    name: 'last refused',
    value: findLastMs,
    cell: (policy: ActivePolicy) => <Moment ms={findLastMs(policy)} />,
    isText: true,
  }
  const units = { name: 'units', value: countUnits, cell: (policy: ActivePolicy) => formatCount(countUnits(policy)) }
  return (
    <section aria-labelledby="policies">
      <h2 id="policies">Active policies</h2>
      <DataTable
        label="Active policies"
        rows={policies}
        toKey={({ name }) => name}
        columns={[
          {
            name: 'policy',
            value: ({ name, mode }) => (mode === 'shadow' ? `${name} (shadow mode)` : name),
            cell: ({ name, mode }) => (
              <>
                {name}
                {mode === 'shadow' && <span class="quiet"> (shadow mode)</span>}
              </>
            ),
          },
          ...(counted ? outcomes.filter(({ name }) => name === 'limited') : []),
          {
            name: 'limits',
            value: (policy) => describeLimits(policy).join(', '),
            cell: (policy) => <Lines lines={describeLimits(policy)} />,
          },
          { name: 'counts by', value: ({ by }) => by.join(' + ') },
          {
            name: 'routes',
            value: ({ match }) => match?.join(', ') ?? 'all',
            cell: ({ match }) => <Lines lines={cutList(match ?? ['all'])} />,
          },
          ...(counted ? outcomes.filter(({ name }) => name !== 'limited') : []),
          ...(hasUnits ? [units] : []),
          ...(counted ? [lastRefused] : []),
        ]}
        brief={counted ? ['limited'] : ['limits']}
        sortedBy="limited"
      />
    </section>
  )
}

const MAX_LINES = 4

function cutList(lines: readonly string[]): readonly string[] {
  const rest = lines.length - MAX_LINES
  return rest > 1 ? [...lines.slice(0, MAX_LINES), `and ${rest} more`] : lines
}

function Lines({ lines }: { lines: readonly string[] }) {
  return (
    <div class="lines">
      {lines.map((line) => (
        <div key={line} title={line}>
          {line}
        </div>
      ))}
    </div>
  )
}

function MostRefusingLimits({ policies, counted: { total } }: { policies: readonly ActivePolicy[]; counted: Counted }) {
  const shadowed = new Set(
    policies
      .filter(({ mode }) => mode === 'shadow')
      .flatMap(({ limits, plans }) => [limits, ...Object.values(plans ?? {})].flat().map(({ name }) => name)),
  )
  const describeRefusals = ({ name, refusals }: Counted['total']['limits'][number]) =>
    `${formatCount(refusals)} ${shadowed.has(name) ? 'would be refused' : 'refused'}`
  return (
    <section aria-labelledby="limits">
      <h2 id="limits">Limits with most refusals</h2>
      {total.limits.length === 0 && <p class="quiet">No refusals.</p>}
      <ol class="bars">
        {total.limits.slice(0, 10).map((limit) => (
          <li key={limit.name}>
            <span title={limit.name}>{limit.name}</span>
            <progress
              aria-label={`${limit.name}: ${describeRefusals(limit)}`}
              max={total.limits[0]?.refusals}
              value={limit.refusals}
            />
            <span class="number">{describeRefusals(limit)}</span>
          </li>
        ))}
      </ol>
    </section>
  )
}

function MostRefused({ counted: { refused, recent } }: { counted: Counted }) {
  const findLastMs = (row: Counted['refused']['callers'][number]) =>
    recent.find(({ policy, digest }) => policy === row.policy && (row.shared || digest === row.digest))?.atMs ?? 0
  return (
    <section aria-labelledby="refused">
      <h2 id="refused">Most refused callers</h2>
      {refused.callers.length === 0 ? (
        <p class="quiet">No refusals.</p>
      ) : (
        <DataTable
          label="Most refused callers"
          rows={refused.callers.slice(0, MAX_CALLERS)}
          toKey={({ policy, digest }) => `${policy} ${digest}`}
          columns={[
            {
              name: 'caller',
              value: ({ digest, label, shared }) => (shared ? 'everyone' : `${label ?? ''} ${digest}`),
              cell: (row) => <CallerLink {...row} />,
            },
            { name: 'policy', value: ({ policy }) => policy },
            { name: 'refused', value: ({ max }) => max, cell: ({ min, max }) => formatRange(min, max) },
            { name: 'last refused', value: findLastMs, cell: (row) => <Moment ms={findLastMs(row)} />, isText: true },
          ]}
          brief={['policy', 'refused']}
        />
      )}
    </section>
  )
}
