/** Runtime rules, policies and versions. */
import { useState } from 'preact/hooks'
import { SKETCH_CAPACITY } from '../../src/core/store/counters.ts'
import type { Section } from '../../src/gateway/rules/edit-rules.ts'
import { formatBlock, formatOverride } from '../../src/gateway/rules/format-rules.ts'
import { formatTarget } from '../../src/gateway/rules/target.ts'
import type { Counted, Edited, Entry, Revision, RulesNow } from '../answers.ts'
import { Problem } from '../api.ts'
import { Editor } from '../parts/editor.tsx'
import { Plain } from '../parts/plain.tsx'
import { Table } from '../parts/table.tsx'
import { type Action, useAction } from '../parts/use-action.tsx'
import { Field, readField, useConfirm } from '../parts/use-confirm.tsx'
import { usePolled } from '../parts/use-polled.ts'
import { formatCount, formatMoment, formatRange } from '../words.ts'

const REFRESH_MS = 5_000
/** Twice as often as isolates send what they have counted. */
const COUNTED_EVERY_MS = 10_000

export function RulesView() {
  const [done, setDone] = useState(0)
  const refresh = () => setDone((before) => before + 1)
  const { value: now, problem } = usePolled<RulesNow>('/admin/rules', REFRESH_MS, undefined, done)
  const { value: stored } = usePolled<{ versions: readonly Revision[] }>('/admin/versions', REFRESH_MS, undefined, done)
  const versions = stored?.versions ?? []
  return (
    <>
      <h1 tabIndex={-1}>Rules</h1>
      {problem && <p class="wrong">{problem.plain}</p>}
      {now && (
        <>
          <Standing now={now} onDone={refresh} />
          <Entries now={now} onDone={refresh} />
          <Editor now={now} onDone={refresh} />
        </>
      )}
      {versions.length > 0 && <Versions versions={versions} onDone={refresh} />}
    </>
  )
}

/** Says which rules are enforced, and how they relate to those in the store. */
function Standing({ now: { version, isolate }, onDone }: { now: RulesNow; onDone: () => void }) {
  const action = useAction()
  const enforced = isolate.version === 0 ? 'the deployed configuration' : `version ${isolate.version}`
  const STATES = {
    deployed: 'No rules; the deployed configuration is active.',
    active: `Version ${isolate.version} is active.`,
    invalid: `Version ${version} cannot be followed (${isolate.problem}); ${enforced} is enforced here, and none by a new isolate.`,
    lost: `The rules are gone from the store. This isolate still enforces ${enforced}, shown here; one that starts now has none.`,
    unknown: `The store does not answer: whether there are newer rules is not known. Shown is what is enforced here, ${enforced}.`,
  } as const satisfies Record<typeof isolate.state, string>
  const writeBack = async () => {
    const body = { version: isolate.version, section: 'all', expectedVersion: 0 }
    await action.run('/rollback', body, (edited: Edited) => `Written back (now version ${edited.version}).`)
    onDone()
  }
  const isWell = isolate.state === 'deployed' || isolate.state === 'active'
  return (
    <div class={isWell ? undefined : 'notice'}>
      <p class={isWell ? 'quiet' : undefined}>{STATES[isolate.state]}</p>
      {isolate.state === 'lost' && (
        <p>
          <button type="button" disabled={action.isBusy} onClick={writeBack}>
            Write them back
          </button>{' '}
          <span class="quiet">Any other change here writes them back, too.</span>
        </p>
      )}
      {action.element}
    </div>
  )
}

/** An ended one is dropped by the next edit. */
function describeKind(kind: string, { until }: Entry) {
  const isEnded = until !== undefined && Date.parse(until) <= Date.now()
  return isEnded ? <span class="quiet">Ended: {kind}</span> : kind
}

const KINDS = { blocks: 'Block', allows: 'Allow', overrides: 'Override' } as const
const PATHS = { blocks: '/block', allows: '/allow', overrides: '/override' } as const

interface Row {
  readonly kind: keyof typeof KINDS
  readonly entry: Entry
}

function Entries({ now: { rules }, onDone }: { now: RulesNow; onDone: () => void }) {
  const { value: counted } = usePolled<Counted>('/admin/statistics?by=hour&periods=24', COUNTED_EVERY_MS)
  const action = useAction()
  const findRefused = ({ kind, entry }: Row) => {
    if (!counted || kind !== 'blocks') return ''
    const found = counted.rules.find(({ target }) => target === formatTarget(entry))
    if (found) return formatRange(found.min, found.max)
    return counted.rules.length < SKETCH_CAPACITY ? '0' : ''
  }
  const rows: Row[] = (Object.keys(KINDS) as (keyof typeof KINDS)[]).flatMap((kind) =>
    rules[kind].map((entry) => ({ kind, entry })),
  )
  const remove = async (kind: keyof typeof KINDS, entry: Entry) => {
    const { by, digest, value, cidr, country, asn } = entry
    const body = { target: { by, digest, value, cidr, country, asn }, remove: true }
    await action.run(PATHS[kind], body, ({ version, changed }: Edited) =>
      changed ? `Removed (version ${version}).` : 'It had been removed already.',
    )
    onDone()
  }
  return (
    <section aria-labelledby="entries">
      <h2 id="entries">Runtime rules</h2>
      {rows.length === 0 && <p class="quiet">No rules. Add one here, or about one caller on its page.</p>}
      {rows.length > 0 && (
        <Table
          label="Runtime rules"
          rows={rows}
          toKey={({ kind, entry }) => `${kind} ${JSON.stringify(entry)}`}
          headAt={1}
          columns={[
            { name: 'type', cell: ({ kind, entry }) => describeKind(KINDS[kind], entry) },
            { name: 'target', cell: ({ entry }) => formatTarget(entry) },
            { name: 'effect', cell: ({ kind, entry }) => HOW[kind](entry) },
            { name: 'until', cell: ({ entry: { until } }) => (until ? formatMoment(Date.parse(until)) : 'never') },
            { name: 'reason', cell: ({ entry }) => entry.reason && <bdi>{entry.reason}</bdi> },
            { name: 'refused in 24 hours', like: 'number', cell: findRefused },
            {
              name: 'remove',
              head: <span class="unseen">remove</span>,
              cell: ({ kind, entry }) => (
                <Plain
                  aria-label={`Remove: ${KINDS[kind]}, ${formatTarget(entry)}`}
                  onClick={() => remove(kind, entry)}
                >
                  Remove
                </Plain>
              ),
            },
          ]}
        />
      )}
      {counted && (
        <p class="quiet">
          Blocks refused {formatCount(counted.total.requests.blocked)} requests in the last 24 hours, all together.
        </p>
      )}
      <AddRule action={action} onDone={onDone} />
      {action.element}
    </section>
  )
}

/** Rules that are about no single caller, by what they do and whom they are about. */
const ADDED = {
  'block cidr': { title: 'Block a network', path: '/block' },
  'block country': { title: 'Block a country', path: '/block' },
  'block asn': { title: 'Block an operator', path: '/block' },
  'allow cidr': { title: 'Allow a network', path: '/allow' },
} as const

function AddRule({ action, onDone }: { action: Action; onDone: () => void }) {
  const confirm = useConfirm()
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const element = event.currentTarget as HTMLFormElement
    const form = new FormData(element)
    const [does = '', kind = ''] = readField(form, 'rule').split(' ')
    const [value, reason, lasts] = ['value', 'reason', 'for'].map((name) => readField(form, name))
    const { path } = ADDED[`${does} ${kind}` as keyof typeof ADDED]
    const target = { [kind]: kind === 'asn' ? Number(value?.replace(/^AS/i, '')) : value }
    confirm.ask({
      title: `${does === 'block' ? 'Block' : 'Allow'} ${kind === 'cidr' ? value : `${kind} ${value}`}?`,
      consequence: `Requests from there are ${does === 'block' ? 'refused with 403' : 'counted, and never refused'} everywhere within seconds${lasts ? `, for ${lasts}` : ''}.`,
      action: does === 'block' ? 'Block' : 'Allow',
      isDangerous: does === 'block',
      run: async () => {
        const body = { target, ...(reason && { reason }), ...(lasts && { for: lasts }) }
        const result = await action.run(path, body, ({ version }: Edited) => `Added (version ${version}).`)
        if (!(result instanceof Problem)) element.reset()
        onDone()
        return result
      },
    })
  }
  return (
    <>
      <form class="row" onSubmit={submit}>
        <label>
          New rule
          <select name="rule">
            {Object.entries(ADDED).map(([name, { title }]) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <Field name="value" label="Network, country or ASN" placeholder="192.0.2.0/24, NL, 64500" required />
        <Field name="reason" label="Reason (optional)" placeholder="shown to the caller" maxLength={200} />
        <Field name="for" label="Duration, such as 1h" />
        <button type="submit">Add</button>
      </form>
      {confirm.element}
    </>
  )
}

const HOW = { blocks: formatBlock, allows: () => '', overrides: formatOverride } as const

const SECTION_NAMES: Readonly<Record<Section, string>> = {
  policies: 'the policies',
  blocks: 'all blocks',
  allows: 'all allows',
  overrides: 'all overrides',
  all: 'all rules',
}

function Versions({ versions, onDone }: { versions: readonly Revision[]; onDone: () => void }) {
  const action = useAction()
  const confirm = useConfirm()
  const [section, setSection] = useState<Section>('policies')
  const goBack = async (version: number) => {
    const [newest] = versions
    const result = await action.run(
      '/rollback',
      { version, section, expectedVersion: newest?.version, expectedId: newest?.id },
      (edited: Edited) => `Rolled back to ${version} (now version ${edited.version}).`,
    )
    onDone()
    return result
  }
  return (
    <section aria-labelledby="versions">
      <div class="heading">
        <h2 id="versions">Versions</h2>
        <label for="section">Roll back</label>
        <select id="section" value={section} onChange={(event) => setSection(event.currentTarget.value as Section)}>
          {Object.entries(SECTION_NAMES).map(([name, title]) => (
            <option key={name} value={name}>
              {title}
            </option>
          ))}
        </select>
      </div>
      <Table
        label="Versions"
        rows={versions}
        toKey={({ version }) => `${version}`}
        columns={[
          { name: 'version', cell: ({ version }) => version },
          { name: 'when', cell: ({ atMs }) => formatMoment(atMs) },
          { name: 'actor', cell: ({ actor }) => actor },
          { name: 'comment', cell: ({ comment }) => comment && <bdi>{comment}</bdi> },
          {
            name: 'roll back',
            head: <span class="unseen">roll back</span>,
            cell: ({ version }) =>
              version !== versions[0]?.version && (
                <Plain
                  aria-label={`Roll back to version ${version}`}
                  onClick={() =>
                    confirm.ask({
                      title: `Roll back ${SECTION_NAMES[section]} to version ${version}?`,
                      consequence: 'It applies everywhere within seconds.',
                      action: 'Roll back',
                      isDangerous: true,
                      run: () => goBack(version),
                    })
                  }
                >
                  Roll back
                </Plain>
              ),
          },
        ]}
      />
      {action.element}
      {confirm.element}
    </section>
  )
}
