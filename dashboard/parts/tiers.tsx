import { callerIn } from '../../src/model/charge.ts'
import type { CallerUsage } from '../answers.ts'
import { count, moment, span } from '../words.ts'
import { numeric, Table } from './table.tsx'

/** Use of every tier, drawn against its limit. */
export function Tiers({ tiers }: Pick<CallerUsage, 'tiers'>) {
  return (
    <Table
      label="Tiers"
      columns={['tier', numeric('used'), numeric('of'), { name: 'share', like: 'wide' }, numeric('more in'), 'digest']}
    >
      {tiers.map(({ tier, route, used, limit, retryAfterMs, resetMs, key, isUnlimited, blockedUntilMs }) => {
        const name = route === null ? tier : `${tier} ${route}`
        const left = limit - used
        return (
          <tr key={name}>
            <th scope="row">
              {name}
              {blockedUntilMs !== null && <span class="wrong"> blocked until {moment(blockedUntilMs)}</span>}
            </th>
            <td class="number">{count(used)}</td>
            <td class="number">
              {count(limit)}
              {isUnlimited && <span class="quiet"> (not enforced)</span>}
            </td>
            <td>
              <meter
                aria-label={`${name}: ${count(used)} of ${count(limit)} used`}
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
              <code>{callerIn(key)}</code>
            </td>
          </tr>
        )
      })}
    </Table>
  )
}
