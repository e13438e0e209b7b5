import type { CallerUsage } from '../answers.ts'
import { formatCount, formatMoment, formatSpan } from '../words.ts'
import { defineNumeric, Table } from './table.tsx'

/** Usage of every limit, drawn against its maximum. */
export function Limits({ limits }: Pick<CallerUsage, 'limits'>) {
  return (
    <Table
      label="Limits"
      columns={[
        'limit',
        defineNumeric('used'),
        defineNumeric('maximum'),
        { name: 'usage', like: 'wide' },
        defineNumeric('resets in'),
        'digest',
      ]}
    >
      {limits.map(({ name, route, used, limit, retryAfterMs, resetMs, key, unlimited, penaltyUntilMs }) => {
        const label = route === null ? name : `${name} ${route}`
        const left = limit - used
        return (
          <tr key={label}>
            <th scope="row">
              {label}
              {penaltyUntilMs !== null && <span class="wrong"> penalty until {formatMoment(penaltyUntilMs)}</span>}
            </th>
            <td class="number">{formatCount(used)}</td>
            <td class="number">
              {formatCount(limit)}
              {unlimited && <span class="quiet"> (unlimited)</span>}
            </td>
            <td>
              <meter
                aria-label={`${label}: ${formatCount(used)} of ${formatCount(limit)} used`}
                min={0}
                max={limit}
                low={limit * 0.8}
                high={limit - 0.5}
                optimum={0}
                value={Math.min(used, limit)}
              />
            </td>
            <td class="number">{left > 0 ? (resetMs === 0 ? '–' : formatSpan(resetMs)) : formatSpan(retryAfterMs)}</td>
            <td>
              <code>{key.slice(key.lastIndexOf('{') + 1, -1)}</code>
            </td>
          </tr>
        )
      })}
    </Table>
  )
}
