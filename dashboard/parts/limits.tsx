/** A caller's usage of each limit. */
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
      brief={['used', 'maximum', 'usage']}
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
          cell: ({ limit, configuredLimit, unlimited, shadow }) => (
            <span>
              {formatCount(limit)}
              {unlimited && <span class="quiet"> (unlimited)</span>}
              {shadow && <span class="quiet"> (shadow mode)</span>}
              {!unlimited && limit !== configuredLimit && (
                <span class="quiet"> (a rule; others {formatCount(configuredLimit)})</span>
              )}
            </span>
          ),
        },
        {
          name: 'usage',
          like: 'wide',
          cell: (row) => (
            <meter
              aria-label={`${formatName(row)}: ${formatCount(row.used)} of ${formatCount(row.limit)} used`}
              min={0}
              max={row.limit}
              low={row.limit * 0.8}
              // Nobody is at a limit by a guess.
              high={row.assumed ? row.limit : row.limit - 0.5}
              optimum={0}
              value={Math.min(row.used, row.limit)}
            />
          ),
        },
        { name: 'resets in', like: 'number', cell: formatReset },
        { name: 'digest', cell: ({ key }) => <code>{key.slice(key.lastIndexOf('{') + 1, -1)}</code> },
      ]}
    />
  )
}

function formatName({ name, route, plan, assumed }: Limit): string {
  const limit = route === null ? name : `${name} ${route}`
  return plan === null ? limit : `${limit}, ${assumed ? 'if on' : 'on'} ${plan}`
}

function formatReset({ limit, used, resetMs, retryAfterMs }: Limit): string {
  if (used >= limit) return formatSpan(retryAfterMs)
  return resetMs === 0 ? '–' : formatSpan(resetMs)
}
