/** The last refusals and failures, one by one: who met what, where, and why. */
import type { Counted } from '../answers.ts'
import { describeOutcome } from '../words.ts'
import { CallerLink } from './caller-link.tsx'
import { DataTable } from './data-table.tsx'
import { Moment } from './moment.tsx'

type Event = Counted['recent'][number]

export function Events({ counted: { recent, refused } }: { counted: Counted }) {
  const labels = new Map(refused.callers.map(({ digest, label }) => [digest, label]))
  return (
    <section aria-labelledby="events">
      <h2 id="events">Last refusals and failures</h2>
      {recent.length === 0 ? (
        <p class="quiet">None in this period, or they are not kept (STATISTICS = "counts").</p>
      ) : (
        <EventTable events={recent} labels={labels} />
      )}
      <p class="quiet">
        Of each 20 seconds, isolate, caller, policy and outcome one is kept; of all, the last 50 of the period.
      </p>
    </section>
  )
}

export interface EventTableProps {
  readonly events: readonly Event[]
  /** Labels of callers by digest; left out where the caller is known. */
  readonly labels?: ReadonlyMap<string, string | undefined>
}

export function EventTable({ events, labels }: EventTableProps) {
  const byKind = new Map<string, Event[]>()
  for (const event of events) {
    const { atMs: _, ...kind } = event
    const key = JSON.stringify(kind)
    byKind.set(key, [...(byKind.get(key) ?? []), event])
  }
  const findWhy = ({ policy, rule }: Event) => policy ?? rule ?? ''
  return (
    <DataTable
      label="Last refusals and failures"
      rows={[...byKind].flatMap(([key, [event, ...before]]) =>
        event ? [{ ...event, key, before: before.length }] : [],
      )}
      toKey={({ key }) => key}
      columns={[
        { name: 'when', value: ({ atMs }) => atMs, cell: ({ atMs }) => <Moment ms={atMs} />, isText: true },
        { name: 'before', value: ({ before }) => before, cell: ({ before }) => before > 0 && `${before} like it` },
        { name: 'status', value: ({ status }) => `${status ?? ''}` },
        { name: 'why', value: ({ outcome }) => describeOutcome(outcome) },
        { name: 'by', value: findWhy },
        ...(labels
          ? [
              {
                name: 'caller',
                value: ({ digest }: Event) => `${labels.get(digest ?? '') ?? ''} ${digest ?? ''}`,
                cell: ({ digest, policy }: Event) =>
                  digest && <CallerLink digest={digest} policy={policy ?? ''} label={labels.get(digest)} />,
              },
            ]
          : []),
        {
          name: 'route',
          value: ({ method, route }) => (route === null || route === '*' ? `${method ?? ''} ${route ?? ''}` : route),
        },
        { name: 'country', value: ({ country }) => country ?? '' },
      ]}
      brief={['status', 'why', 'caller']}
    />
  )
}
