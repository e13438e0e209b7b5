import { useEffect, useState } from 'preact/hooks'
import type { Differences, Edited, Policies, Validity } from '../answers.ts'
import { ask, type Problem, parse } from '../api.ts'
import { Result } from './result.tsx'
import { useAction } from './use-action.ts'
import { useConfirm } from './use-confirm.tsx'

/** Nothing is checked while an operator is typing. */
const PAUSE_MS = 300

type Check = { readonly tables?: readonly object[]; readonly problems: readonly string[]; readonly changes?: string }

/** Policies are edited here, checked while typing, and activated. */
export function Editor({ onDone }: { onDone: () => void }) {
  const [text, setText] = useState('')
  const [check, setCheck] = useState<Check>({ problems: [] })
  const action = useAction()
  const confirm = useConfirm()

  const load = async () => {
    const { tables } = await ask<Policies>('/admin/policies')
    setText(JSON.stringify(tables, undefined, 2))
  }
  useEffect(() => {
    load().catch(() => {})
  }, [])

  useEffect(() => {
    let isOver = false
    const timer = setTimeout(async () => {
      const checked = await checkPolicies(text)
      if (!isOver) setCheck(checked)
    }, PAUSE_MS)
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [text])

  const push = async (policies: readonly object[] | null, candidate: boolean, done: string) => {
    await action.run(
      '/policies/push',
      { policies, candidate },
      ({ version }: Edited) => `${done} (version ${version}).`,
    )
    if (policies === null && !candidate) await load().catch(() => {})
    onDone()
  }
  const { tables, problems, changes } = check
  const isReady = tables !== undefined && problems.length === 0 && !action.isBusy
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
        onInput={(event) => setText(event.currentTarget.value)}
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
      <div class="buttons">
        <button
          type="button"
          disabled={!isReady}
          onClick={() =>
            confirm.ask(
              'Activate these policies everywhere? They replace the active ones within seconds.',
              'Activate',
              () => push(tables ?? null, false, 'Activated'),
            )
          }
        >
          Activate
        </button>
        <button
          type="button"
          class="plain"
          disabled={!isReady}
          onClick={() => push(tables ?? null, true, 'Candidate started')}
        >
          Try as candidate
        </button>
        <button type="button" class="plain" onClick={() => push(null, true, 'Candidate stopped')}>
          Stop candidate
        </button>
        <button
          type="button"
          class="plain"
          onClick={() =>
            confirm.ask(
              'Use the deployed policies? They replace the active ones within seconds.',
              'Use deployed policies',
              () => push(null, false, 'Deployed policies active'),
            )
          }
        >
          Use deployed policies
        </button>
      </div>
      <Result action={action} />
      {confirm.element}
    </section>
  )
}

async function checkPolicies(text: string): Promise<Check> {
  const tables = parse(text)
  if (!Array.isArray(tables)) return { problems: text.trim() === '' ? [] : ['Not a JSON array.'] }
  if (tables.length === 0) return { problems: [], changes: 'No policies: only RATE_LIMITS applies.' }
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
