import { useEffect, useState } from 'preact/hooks'
import type { Differences, Edited, Policies, RulesNow, Validity } from '../answers.ts'
import { ask, type Problem, parse } from '../api.ts'
import { Plain } from './plain.tsx'
import { useAction } from './use-action.tsx'
import { useConfirm } from './use-confirm.tsx'

/** Nothing is checked while an operator is typing. */
const PAUSE_MS = 300

interface Check {
  readonly text: string
  readonly tables?: readonly object[]
  readonly problems: readonly string[]
  readonly changes?: string
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

  const load = (next: string) => setTexts({ text: next, loaded: next, active: next })
  useEffect(() => {
    let isOver = false
    const follow = ({ tables }: Policies) => {
      if (isOver) return
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
    if (pushed) load(text)
    onDone()
  }
  const { tables, problems, changes } = check
  const isOutdated = active !== loaded && active !== text
  const isReady = tables !== undefined && problems.length === 0 && check.text === text && !action.isBusy
  return (
    <section aria-labelledby="editor">
      <h2 id="editor">Policies</h2>
      <label for="tables">Policies (JSON)</label>
      <textarea
        id="tables"
        spellcheck={false}
        aria-describedby="check"
        aria-invalid={problems.length > 0}
        value={text}
        onInput={({ currentTarget: { value } }) => setTexts((texts) => ({ ...texts, text: value }))}
      />
      <div id="check" role="status">
        {problems.length > 0 ? (
          <ul class="wrong">
            {problems.map((problem) => (
              <li key={problem}>{problem}</li>
            ))}
          </ul>
        ) : (
          <p class="quiet">{changes}</p>
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
            confirm.ask(
              `Activate these policies everywhere? They replace ${isOutdated ? 'those that others have activated' : 'the active ones'} within seconds.`,
              'Activate',
              () => push(tables ?? null, 'Activated'),
            )
          }
        >
          Activate
        </button>
        <Plain
          onClick={() =>
            confirm.ask(
              'Use the deployed policies? They replace the active ones within seconds.',
              'Use deployed policies',
              () => push(null, 'Deployed policies active'),
            )
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
  if (tables.length === 0) return { problems: ['At least one policy; or use the deployed policies.'] }
  try {
    const { valid, problems } = await ask<Validity>('/admin/policies/validate', { policies: tables })
    if (!valid) return { tables, problems: problems.map(({ message }) => message) }
    return {
      tables,
      problems: [],
      changes: describeChanges(await ask<Differences>('/admin/policies/diff', { policies: tables })),
    }
  } catch (error) {
    return { problems: [(error as Problem).message] }
  }
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
