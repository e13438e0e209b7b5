import type { CallerUsage } from '../answers.ts'
import { count, moment, span } from '../words.ts'
import { numeric, Table } from './table.tsx'

/** Use of every limit, drawn against its limit. */
export function Limits({ limits }: Pick<CallerUsage, 'limits'>) {
  return (
    <Table
      label="Limits"
      columns={['limit', numeric('used'), numeric('of'), { name: 'share', like: 'wide' }, numeric('more in'), 'digest']}
    >
      {limits.map(({ name, route, used, limit, retryAfterMs, resetMs, key, unlimited, penaltyUntilMs }) => {
        const label = route === null ? name : `${name} ${route}`
        const left = limit - used
        return (
          <tr key={label}>
            <th scope="row">
              {label}
              {penaltyUntilMs !== null && <span class="wrong"> blocked until {moment(penaltyUntilMs)}</span>}
            </th>
            <td class="number">{count(used)}</td>
            <td class="number">
              {count(limit)}
              {unlimited && <span class="quiet"> (not enforced)</span>}
            </td>
            <td>
              <meter
                aria-label={`${label}: ${count(used)} of ${count(limit)} used`}
                min={0}
                max={limit}
                low={limit * 0.8}
                high={limit - 0.5}
                optimum={0}
                value={Math.min(used, limit)}
              />
            </td>
            <td class="number">{left > 0 ? (resetMs === 0 ? '–' : span(resetMs)) : span(retryAfterMs)}</td>
            <td>
              <code>{key.slice(key.lastIndexOf('{') + 1, -1)}</code>
            </td>
          </tr>
        )
      })}
    </Table>
  )
}
