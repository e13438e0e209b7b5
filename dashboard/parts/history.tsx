import { useEffect, useState } from 'preact/hooks'
import type { CallerHistory } from '../answers.ts'
import { ask, type Problem } from '../api.ts'
import { count, countBetween, minute, moment } from '../words.ts'
import { numeric, Table } from './table.tsx'

const RANGES = {
  'the last two hours': { by: 'minute', periods: 120 },
  'the last day': { by: 'hour', periods: 24 },
  'the last 30 days': { by: 'hour', periods: 720 },
} as const
type Range = keyof typeof RANGES

/** As often as isolates tell what they have counted. */
const EVERY_MS = 10_000

export interface HistoryProps {
  readonly caller: object
  /** Grows when something was done about the caller here. */
  readonly done: number
}

/** When a caller was refused, and what was done about it. */
export function History({ caller, done }: HistoryProps) {
  const [range, setRange] = useState<Range>('the last day')
  const [history, setHistory] = useState<CallerHistory>()
  const [problem, setProblem] = useState<Problem>()
  useEffect(() => {
    let isOver = false
    const refresh = async () => {
      try {
        const found = await ask<CallerHistory>('/admin/history', { caller, ...RANGES[range] })
        if (isOver) return
        setHistory(found)
        setProblem(undefined)
      } catch (error) {
        if (!isOver) setProblem(error as Problem)
      }
    }
    refresh()
    const timer = setInterval(refresh, EVERY_MS)
    return () => {
      isOver = true
      clearInterval(timer)
    }
  }, [caller, range, done])
  return (
    <section aria-labelledby="history">
      <div class="heading">
        <h2 id="history">History</h2>
        <label for="when">in</label>
        <select id="when" value={range} onChange={(event) => setRange(event.currentTarget.value as Range)}>
          {Object.keys(RANGES).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </div>
      {problem && <p class="wrong">{problem.plain}</p>}
      {history && <Refused refusals={history.refusals} range={range} />}
      {history && <Deeds audit={history.audit} />}
    </section>
  )
}

function Refused({ refusals, range }: { refusals: CallerHistory['refusals']; range: Range }) {
  if (!refusals) return <p class="quiet">When it was refused is not known: STATISTICS = "on" turns counting on.</p>
  const rows = refusals.periods
    .flatMap(({ startMs, policies }) => policies.map((row) => ({ startMs, ...row })))
    .reverse()
  const most = Math.max(0, ...refusals.periods.map(({ maxOthers }) => maxOthers))
  const unit = RANGES[range].by
  return (
    <>
      {rows.length > 0 && (
        <Table label="Refusals" columns={[unit, 'policy', numeric('refused')]}>
          {rows.map(({ startMs, policy, min, max }) => (
            <tr key={`${startMs} ${policy}`}>
              <th scope="row">{minute(startMs)}</th>
              <td>{policy}</td>
              <td class="number">{countBetween(min, max)}</td>
            </tr>
          ))}
        </Table>
      )}
      <p class="quiet">
        {rows.length === 0 && most === 0 && `No limit has refused it in ${range}. `}
        {rows.length === 0 && most > 0 && `It was not among those refused most in any ${unit} of ${range}. `}
        {most > 0 &&
          `A policy may have refused it ${count(most)} times more in a ${unit}: only those refused most are kept. `}
        Requests that were let through, or kept out by a block, are not kept by caller.
      </p>
    </>
  )
}

function Deeds({ audit }: Pick<CallerHistory, 'audit'>) {
  if (!audit) return <p class="quiet">What was done about it is not noted: RULES = "on" turns that on.</p>
  return (
    <>
      {audit.length > 0 && (
        <Table label="What was done" columns={['when', 'what', 'by', 'why']}>
          {audit.map(({ atMs, action, actor, comment }) => (
            <tr key={`${atMs} ${action}`}>
              <th scope="row">{moment(atMs)}</th>
              <td>{action}</td>
              <td>{actor}</td>
              <td>{comment}</td>
            </tr>
          ))}
        </Table>
      )}
      <p class="quiet">
        {audit.length === 0 && 'Nothing that names this caller is noted. '}
        Kept are the last 500 blocks, allows, other limits and resets of single callers. What is ruled for networks,
        countries and parts of values, and versions that were rolled back to, stand under Rules.
      </p>
    </>
  )
}
