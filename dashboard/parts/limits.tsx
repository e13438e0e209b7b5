/** What a caller has used of each limit. */
import type { CallerUsage } from '../answers.ts'
import { formatCount, formatMoment, formatSpan } from '../words.ts'
import { Table } from './table.tsx'

type Limit = CallerUsage['limits'][number]

/** Usage of every limit, drawn against its maximum. */
export function Limits({ limits }: Pick<CallerUsage, 'limits'>) {
  return (
    <Table
      label="Limits"
      rows={limits}
      toKey={formatName}
      columns={[
        {
          name: 'limit',
          cell: (row) => (
            <>
              {formatName(row)}
              {row.penaltyUntilMs !== null && (
                <span class="wrong"> penalty until {formatMoment(row.penaltyUntilMs)}</span>
              )}
            </>
          ),
        },
        { name: 'used', like: 'number', cell: ({ used }) => formatCount(used) },
        {
          name: 'maximum',
          like: 'number',
          cell: ({ limit, unlimited }) => (
            <>
              {formatCount(limit)}
              {unlimited && <span class="quiet"> (unlimited)</span>}
            </>
          ),
        },
        {
          name: 'usage',
          like: 'wide',
          cell: ({ used, limit, ...row }) => (
            <meter
              aria-label={`${formatName(row)}: ${formatCount(used)} of ${formatCount(limit)} used`}
              min={0}
              max={limit}
              low={limit * 0.8}
              high={limit - 0.5}
              optimum={0}
              value={Math.min(used, limit)}
            />
          ),
        },
        { name: 'resets in', like: 'number', cell: formatReset },
        { name: 'digest', cell: ({ key }) => <code>{key.slice(key.lastIndexOf('{') + 1, -1)}</code> },
      ]}
    />
  )
}

/** Several plans of a policy have a row each. */
function formatName({ name, route, plan }: Pick<Limit, 'name' | 'route' | 'plan'>): string {
  return [name, route, plan === null ? null : `on ${plan}`].filter((part) => part !== null).join(' ')
}

function formatReset({ limit, used, resetMs, retryAfterMs }: Limit): string {
  if (used >= limit) return formatSpan(retryAfterMs)
  return resetMs === 0 ? '–' : formatSpan(resetMs)
}
