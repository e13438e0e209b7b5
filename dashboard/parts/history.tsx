import { useState } from 'preact/hooks'
import type { CallerHistory } from '../answers.ts'
import { formatCount, formatMinute, formatMoment, formatRange } from '../words.ts'
import { EventTable } from './events.tsx'
import { Table } from './table.tsx'
import { usePolled } from './use-polled.ts'

const RANGES = {
  'Last 2 hours': { by: 'minute', periods: 120 },
  'Last 24 hours': { by: 'hour', periods: 24 },
  'Last 30 days': { by: 'hour', periods: 720 },
} as const
type Range = keyof typeof RANGES

/** Twice as often as isolates send what they have counted. */
const EVERY_MS = 10_000

export interface HistoryProps {
  readonly caller: object
  /** Grows when something was done about the caller here. */
  readonly done: number
}

const MAX_EVENTS = 10

/** When a caller was refused, and the changes that operators made for it. */
export function History({ caller, done }: HistoryProps) {
  const [range, setRange] = useState<Range>('Last 24 hours')
  const body = { caller, ...RANGES[range] }
  const { value: history, problem } = usePolled<CallerHistory>('/admin/history', EVERY_MS, body, done)
  return (
    <section aria-labelledby="history">
      <div class="heading">
        <h2 id="history">History</h2>
        <label for="when">Period</label>
        <select id="when" value={range} onChange={(event) => setRange(event.currentTarget.value as Range)}>
          {Object.keys(RANGES).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </div>
      {problem && <p class="wrong">{problem.plain}</p>}
      {history && <Refused refusals={history.refusals} range={range} />}
      {history && <AuditLog audit={history.audit} />}
    </section>
  )
}

function Refused({ refusals, range }: { refusals: CallerHistory['refusals']; range: Range }) {
  if (!refusals) return <p class="quiet">Refusals need STATISTICS = "on".</p>
  const rows = refusals.periods
    .flatMap(({ startMs, policies }) => policies.map((row) => ({ startMs, ...row })))
    .reverse()
  const most = Math.max(0, ...refusals.periods.map(({ maxOthers }) => maxOthers))
  const unit = RANGES[range].by
  return (
    <>
      {rows.length > 0 && (
        <Table
          label="Refusals"
          rows={rows}
          toKey={({ startMs, policy }) => `${startMs} ${policy}`}
          columns={[
            { name: unit, cell: ({ startMs }) => formatMinute(startMs) },
            { name: 'policy', cell: ({ policy }) => policy },
            { name: 'refused', like: 'number', cell: ({ min, max }) => formatRange(min, max) },
          ]}
        />
      )}
      {refusals.recent.length > 0 && <EventTable events={refusals.recent.slice(0, MAX_EVENTS)} />}
      <p class="quiet">
        {rows.length === 0 && most === 0 && refusals.recent.length === 0 && `No refusals: ${range.toLowerCase()}. `}
        {rows.length === 0 &&
          most > 0 &&
          `Not among the most refused callers in any ${unit} of the ${range.toLowerCase()}. `}
        {most > 0 &&
          `Up to ${formatCount(most)} refusals per ${unit} may be missing: only the most refused callers are stored. `}
        Admitted and blocked requests are not stored per caller.
      </p>
    </>
  )
}

function AuditLog({ audit }: Pick<CallerHistory, 'audit'>) {
  if (!audit) return <p class="quiet">The audit log needs RULES = "on".</p>
  return (
    <>
      {audit.length > 0 && (
        <Table
          label="Audit log"
          rows={audit}
          toKey={({ atMs, action }) => `${atMs} ${action}`}
          columns={[
            { name: 'when', cell: ({ atMs }) => formatMoment(atMs) },
            { name: 'action', cell: ({ action }) => action },
            { name: 'actor', cell: ({ actor }) => actor },
            { name: 'comment', cell: ({ comment }) => comment && <bdi>{comment}</bdi> },
          ]}
        />
      )}
      <p class="quiet">
        {audit.length === 0 && 'No changes to this caller. '}
        The last 500 changes to single callers are stored. For networks, countries, wildcards and rollbacks see Rules.
      </p>
    </>
  )
}
