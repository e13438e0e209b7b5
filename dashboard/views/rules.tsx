import { useEffect, useState } from 'preact/hooks'
import { formatBlock, formatOverride } from '../../src/rules/document.ts'
import type { Section } from '../../src/rules/edit-rules.ts'
import { formatTarget } from '../../src/rules/target.ts'
import type { Counted, Edited, Entry, Revision, RulesNow, ShadowCounts } from '../answers.ts'
import { ask, type Problem } from '../api.ts'
import { Editor } from '../parts/editor.tsx'
import { Figure } from '../parts/figure.tsx'
import { Said } from '../parts/said.tsx'
import { Table } from '../parts/table.tsx'
import { useAct } from '../parts/use-act.ts'
import { usePolled } from '../parts/use-polled.ts'
import { useSure } from '../parts/use-sure.tsx'
import { count, moment } from '../words.ts'

const REFRESH_MS = 5_000
/** As often as isolates send it. */
const COUNTED_EVERY_MS = 10_000

export function RulesView() {
  const [now, setNow] = useState<RulesNow>()
  const [versions, setVersions] = useState<readonly Revision[]>([])
  const [problem, setProblem] = useState<Problem>()
  const refresh = async () => {
    try {
      setNow(await ask<RulesNow>('/admin/rules'))
      setVersions((await ask<{ versions: Revision[] }>('/admin/versions')).versions)
      setProblem(undefined)
    } catch (error) {
      setProblem(error as Problem)
    }
  }
  useEffect(() => {
    refresh()
    const timer = setInterval(refresh, REFRESH_MS)
    return () => clearInterval(timer)
  }, [])
  return (
    <>
      <h1>Rules</h1>
      {problem && <p class="wrong">{problem.plain}</p>}
      {now && (
        <>
          <p class="quiet">{versionInWords(now)}</p>
          {now.isolate.problem && <p class="wrong">{now.isolate.problem}</p>}
          <Entries now={now} onDone={refresh} />
          <Editor onDone={refresh} />
          {now.rules.candidate && <Shadow ofIsolate={now.isolate.candidate} />}
          <Versions versions={versions} onDone={refresh} />
        </>
      )}
    </>
  )
}

function versionInWords({ version, id, isolate }: RulesNow): string {
  if (version === 0) return 'Nothing is ruled: what was deployed holds.'
  if (isolate.version === version && isolate.id === id) return `Version ${version} is in force.`
  const follows = isolate.version === 0 ? 'has none' : `follows version ${isolate.version}`
  return `Version ${version} is the newest. The isolate that answers ${follows} until its next request.`
}

/** What an entry is that is over: the next edit leaves it out. */
const isEnded = ({ until }: Entry) => until !== undefined && Date.parse(until) <= Date.now()

const KINDS = { blocks: 'Blocked', allows: 'Never limited', overrides: 'Other limits' } as const
const PATHS = { blocks: '/block', allows: '/allow', overrides: '/override' } as const

function Entries({ now: { rules }, onDone }: { now: RulesNow; onDone: () => void }) {
  const act = useAct()
  const rows = (Object.keys(KINDS) as (keyof typeof KINDS)[]).flatMap((kind) =>
    rules[kind].map((entry) => ({ kind, entry })),
  )
  const takeBack = async (kind: keyof typeof KINDS, entry: Entry) => {
    const { by, digest, value, cidr, country, asn } = entry
    const body = { target: { by, digest, value, cidr, country, asn }, remove: true }
    await act.run(PATHS[kind], body, ({ version }: Edited) => `Taken back in version ${version}.`)
    onDone()
  }
  return (
    <section aria-labelledby="entries">
      <h2 id="entries">Blocks, allows and overrides</h2>
      {rows.length === 0 && <p class="quiet">There are none. A caller’s page sets them.</p>}
      {rows.length > 0 && (
        <Table
          label="Blocks, allows and overrides"
          columns={['type', 'target', 'effect', 'until', 'reason', { name: 'remove', like: 'unseen' }]}
        >
          {rows.map(({ kind, entry }) => (
            <tr key={`${kind} ${JSON.stringify(entry)}`}>
              <td class={isEnded(entry) ? 'quiet' : undefined}>
                {isEnded(entry) ? `Ended: ${KINDS[kind]}` : KINDS[kind]}
              </td>
              <th scope="row">{formatTarget(entry)}</th>
              <td>{HOW[kind](entry)}</td>
              <td>{entry.until ? moment(Date.parse(entry.until)) : 'no end'}</td>
              <td>{entry.reason}</td>
              <td>
                <button
                  type="button"
                  class="plain"
                  aria-label={`Take back: ${KINDS[kind]}, ${formatTarget(entry)}`}
                  onClick={() => takeBack(kind, entry)}
                >
                  Take back
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Said act={act} />
    </section>
  )
}

const HOW = { blocks: formatBlock, allows: () => '', overrides: formatOverride } as const

/** What all isolates have counted; without statistics, what the one that answers has seen. */
function Shadow({ ofIsolate }: { ofIsolate: ShadowCounts | null }) {
  const { value: counted } = usePolled<Counted>('/admin/statistics?by=minute&periods=120', COUNTED_EVERY_MS)
  const counts = counted?.total.candidate ?? ofIsolate
  if (!counts) return null
  return (
    <section aria-labelledby="shadow">
      <h2 id="shadow">In shadow, {counted ? 'in the last two hours' : 'as this isolate has seen it'}</h2>
      <dl class="figures">
        <Figure name="Requests decided by both" value={count(counts.requests)} />
        <Figure name="Refused by both" value={count(counts.refusedByBoth)} />
        <Figure name="Only by those in shadow" value={count(counts.refusedByCandidateOnly)} />
        <Figure name="Only by those in force" value={count(counts.refusedByActiveOnly)} />
      </dl>
    </section>
  )
}

const SECTION_NAMES: Readonly<Record<Section, string>> = {
  policies: 'the policies',
  candidate: 'the policies in shadow',
  blocks: 'all blocks',
  allows: 'all allows',
  overrides: 'all other limits',
  all: 'all rules',
}

function Versions({ versions, onDone }: { versions: readonly Revision[]; onDone: () => void }) {
  const act = useAct()
  const sure = useSure()
  const [section, setSection] = useState<Section>('policies')
  const goBack = async (version: number) => {
    const [newest] = versions
    await act.run(
      '/rollback',
      { version, section, expectedVersion: newest?.version, expectedId: newest?.id },
      (edited: Edited) => `Back to version ${version}, as version ${edited.version}.`,
    )
    onDone()
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
      <Table label="Versions" columns={['version', 'when', 'by', 'why', { name: 'roll back', like: 'unseen' }]}>
        {versions.map(({ version, atMs, actor, comment }, at) => (
          <tr key={version}>
            <th scope="row">{version}</th>
            <td>{moment(atMs)}</td>
            <td>{actor}</td>
            <td>{comment}</td>
            <td>
              {at > 0 && (
                <button
                  type="button"
                  class="plain"
                  aria-label={`Roll back to version ${version}`}
                  onClick={() =>
                    sure.ask(`Roll back ${SECTION_NAMES[section]} to version ${version}?`, () => goBack(version))
                  }
                >
                  Roll back
                </button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      <Said act={act} />
      {sure.element}
    </section>
  )
}
