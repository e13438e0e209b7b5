/** The editor of policies: a form beside the JSON. */
import { useEffect, useState } from 'preact/hooks'
import type { ActivePolicy, Differences, Edited, Policies, RulesNow, Validity } from '../answers.ts'
import { ask, Problem, parse } from '../api.ts'
import { describeLimits } from '../words.ts'
import { Plain } from './plain.tsx'
import { useAction } from './use-action.tsx'
import { useConfirm } from './use-confirm.tsx'

/** Nothing is checked while an operator is typing. */
const PAUSE_MS = 300

interface Check {
  readonly text: string
  readonly tables?: readonly object[]
  readonly problems: readonly string[]
  readonly differences?: Differences
}

/** The text in the editor, the policies that it began as, and those that are active now. */
interface Texts {
  readonly text: string
  readonly loaded: string
  readonly active: string
}

/** Policies are edited here, checked while typing, and activated. */
export function Editor({ now: { version, id }, onDone }: { now: RulesNow; onDone: () => void }) {
  const [{ text, loaded, active }, setTexts] = useState<Texts>({ text: '', loaded: '', active: '' })
  const [check, setCheck] = useState<Check>({ text: '', problems: [] })
  const action = useAction()
  const confirm = useConfirm()

  const [others, setOthers] = useState<readonly ActivePolicy[]>([])
  const load = (next: string) => setTexts({ text: next, loaded: next, active: next })
  useEffect(() => {
    let isOver = false
    const follow = ({ tables, policies }: Policies) => {
      if (isOver) return
      setOthers(policies.filter((policy) => !tables.some(({ name }) => name === policy.name)))
      const next = JSON.stringify(tables, undefined, 2)
      setTexts((texts) =>
        texts.text === texts.loaded ? { text: next, loaded: next, active: next } : { ...texts, active: next },
      )
    }
    ask<Policies>('/admin/policies').then(follow, () => {})
    return () => {
      isOver = true
    }
  }, [version, id])

  useEffect(() => {
    let isOver = false
    const timer = setTimeout(async () => {
      const checked = await checkPolicies(text)
      if (!isOver) setCheck({ text, ...checked })
    }, PAUSE_MS)
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [text])

  const push = async (policies: readonly object[] | null, done: string) => {
    const pushed = await action.run(
      '/policies/push',
      { policies, expectedVersion: version, expectedId: id },
      ({ version, changed }: Edited) => (changed ? `${done} (version ${version}).` : 'It was so already.'),
    )
    if (!(pushed instanceof Problem)) load(text)
    onDone()
    return pushed
  }
  const { tables, problems, differences } = check
  const isUntouched = text === loaded
  const isOutdated = active !== loaded && active !== text
  const isReady = tables !== undefined && problems.length === 0 && check.text === text && !action.isBusy
  return (
    <section aria-labelledby="editor">
      <h2 id="editor">Policies</h2>
      {others.map((policy) => (
        <p key={policy.name}>
          <b>{policy.name}</b>: {describeLimits(policy).join(', ')}, by {policy.by.join(' + ')}.{' '}
          <span class="quiet">
            It is made of the variable RATE_LIMITS, and is changed by a deploy; for one caller, change its limits under
            Callers.
          </span>
        </p>
      ))}
      <div class="pair">
        <PolicyForm text={text} onChange={(next) => setTexts((texts) => ({ ...texts, text: next }))} />
        <div>
          <label for="tables">Policies (JSON)</label>
          <textarea
            id="tables"
            spellcheck={false}
            aria-describedby="check"
            aria-invalid={problems.length > 0 && !isUntouched}
            value={text}
            onInput={({ currentTarget: { value } }) => setTexts((texts) => ({ ...texts, text: value }))}
          />
        </div>
      </div>
      <div id="check" role="status">
        {isUntouched && tables?.length === 0 ? (
          <p class="quiet">No policies but that of RATE_LIMITS. Add one here, without a deploy.</p>
        ) : problems.length > 0 ? (
          <ul class="wrong">
            {problems.map((problem) => (
              <li key={problem}>{problem}</li>
            ))}
          </ul>
        ) : (
          <p class="quiet">{differences && describeChanges(differences)}</p>
        )}
      </div>
      {isOutdated && (
        <p class="wrong">
          Other policies have become active since this text was loaded.{' '}
          <Plain onClick={() => load(active)}>Load them</Plain>
        </p>
      )}
      <div class="buttons">
        <button
          type="button"
          disabled={!isReady}
          onClick={() =>
            confirm.ask({
              title: 'Activate these policies everywhere?',
              consequence: `They replace ${isOutdated ? 'those that others have activated' : 'the active ones'} within seconds.`,
              action: 'Activate',
              isDangerous: true,
              content: differences && <Difference {...differences} />,
              run: () => push(tables ?? null, 'Activated'),
            })
          }
        >
          Activate
        </button>
        <Plain
          onClick={() =>
            confirm.ask({
              title: 'Use the deployed policies?',
              consequence: 'They replace the active ones within seconds.',
              action: 'Use deployed policies',
              isDangerous: true,
              run: () => push(null, 'Deployed policies active'),
            })
          }
        >
          Use deployed policies
        </Plain>
      </div>
      {action.element}
      {confirm.element}
    </section>
  )
}

async function checkPolicies(text: string): Promise<Omit<Check, 'text'>> {
  const tables = parse(text)
  if (!Array.isArray(tables)) return { problems: text.trim() === '' ? [] : ['Not a JSON array.'] }
  if (tables.length === 0) return { tables, problems: ['At least one policy; or use the deployed policies.'] }
  try {
    const { valid, problems } = await ask<Validity>('/admin/policies/validate', { policies: tables })
    if (!valid) return { tables, problems: problems.map(({ message }) => message) }
    return {
      tables,
      problems: [],
      differences: await ask<Differences>('/admin/policies/diff', { policies: tables }),
    }
  } catch (error) {
    return { problems: [(error as Problem).message] }
  }
}

/** Policy keys that the form can edit as single-line text. */
const FORM_KEYS = ['name', 'limits', 'by', 'match', 'mode'] as const

/** The policies of the text, one at a time; what is no plain text stays to the JSON. */
function PolicyForm({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  const [at, setAt] = useState(0)
  const parsed = parse(text)
  const tables = Array.isArray(parsed) ? (parsed as readonly Readonly<Record<string, unknown>>[]) : []
  const table = tables[at] ?? tables[0]
  const write = (next: readonly object[]) => onChange(JSON.stringify(next, undefined, 2))
  const change = (key: string, value: string) =>
    write(tables.map((each) => (each === table ? { ...each, [key]: value === '' ? undefined : value } : each)))
  return (
    <div class="form">
      <label hidden={!table}>
        Policy to edit
        <select
          value={tables.indexOf(table ?? {})}
          onChange={({ currentTarget }) => setAt(Number(currentTarget.value))}
        >
          {tables.map(({ name }, index) => (
            <option key={index} value={index}>
              {`${name}`}
            </option>
          ))}
        </select>
      </label>
      {table &&
        FORM_KEYS.map((key) => {
          const value = table[key]
          const isText = value === undefined || typeof value === 'string'
          return (
            <label key={key}>
              {key}
              <input
                value={isText ? (value ?? '') : JSON.stringify(value)}
                disabled={!isText}
                autocomplete="off"
                onInput={({ currentTarget }) => change(key, currentTarget.value)}
              />
            </label>
          )
        })}
      <div class="buttons">
        <Plain
          onClick={() => {
            setAt(tables.length)
            write([...tables, { name: `policy-${tables.length + 1}`, limits: '60/1m' }])
          }}
        >
          Add a policy
        </Plain>
        {table && tables.length > 1 && (
          <Plain onClick={() => write(tables.filter((each) => each !== table))}>Remove {`${table.name}`}</Plain>
        )}
      </div>
    </div>
  )
}

const SIGNS = { added: '+', removed: '−', changed: '±' } as const

/** Lists the changes that activation will make, one line per key. */
function Difference({ changes }: Differences) {
  if (changes.length === 0) return <p class="quiet">No changes.</p>
  return (
    <ul class="difference">
      {changes.map(({ policy, change, keys }) => (
        <li key={policy}>
          <b class={change}>
            {SIGNS[change]} {policy}
          </b>{' '}
          {change}
          {change === 'changed' &&
            keys.map(({ key, before, after }) => (
              <div key={key}>
                {key}: <del>{before ?? 'none'}</del> → <ins>{after ?? 'none'}</ins>
              </div>
            ))}
        </li>
      ))}
    </ul>
  )
}

const VERBS = { added: 'adds', removed: 'removes', changed: 'changes' } as const

function describeChanges({ changes }: Differences): string {
  if (changes.length === 0) return 'Valid; no changes.'
  const parts = changes.map(({ policy, change, keys }) => {
    const how = keys.map(({ key, before, after }) => `${key}: ${before ?? 'none'} → ${after ?? 'none'}`)
    return `${VERBS[change]} ${policy}${change === 'changed' ? ` (${how.join('; ')})` : ''}`
  })
  return `Valid: ${parts.join(', ')}.`
}
