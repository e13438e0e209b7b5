import { useEffect, useState } from 'preact/hooks'
import type { Differences, Edited, Policies, Validity } from '../answers.ts'
import { ask, type Problem, parse } from '../api.ts'
import { Said } from './said.tsx'
import { useAct } from './use-act.ts'
import { useSure } from './use-sure.tsx'

/** Nobody is asked while somebody is typing. */
const PAUSE_MS = 300

type Check = { readonly tables?: readonly object[]; readonly problems: readonly string[]; readonly changes?: string }

/** Where policies are written, checked as one types, and pushed. */
export function Editor({ onDone }: { onDone: () => void }) {
  const [text, setText] = useState('')
  const [check, setCheck] = useState<Check>({ problems: [] })
  const act = useAct()
  const sure = useSure()

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
      const checked = await checkOf(text)
      if (!isOver) setCheck(checked)
    }, PAUSE_MS)
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [text])

  const push = async (policies: readonly object[] | null, shadow: boolean, said: string) => {
    await act.run('/policies/push', { policies, shadow }, ({ version }: Edited) => `${said} It is version ${version}.`)
    if (policies === null && !shadow) await load().catch(() => {})
    onDone()
  }
  const { tables, problems, changes } = check
  const isReady = tables !== undefined && problems.length === 0 && !act.isBusy
  return (
    <section aria-labelledby="editor">
      <h2 id="editor">Policies</h2>
      <label for="tables">Tables, as in POLICIES (JSON)</label>
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
            sure.ask('Put these policies in force everywhere?', () => push(tables ?? null, false, 'Pushed.'))
          }
        >
          Push
        </button>
        <button
          type="button"
          class="plain"
          disabled={!isReady}
          onClick={() => push(tables ?? null, true, 'They decide in shadow.')}
        >
          Try in shadow
        </button>
        <button type="button" class="plain" onClick={() => push(null, true, 'Nothing is in shadow.')}>
          End shadow
        </button>
        <button
          type="button"
          class="plain"
          onClick={() =>
            sure.ask('Let the policies of the deploy hold again?', () => push(null, false, 'The deploy holds.'))
          }
        >
          Those of the deploy
        </button>
      </div>
      <Said act={act} />
      {sure.element}
    </section>
  )
}

async function checkOf(text: string): Promise<Check> {
  const tables = parse(text)
  if (!Array.isArray(tables)) return { problems: text.trim() === '' ? [] : ['This is no list in JSON.'] }
  try {
    const { valid, problems } = await ask<Validity>('/admin/policies/validate', { policies: tables })
    if (!valid) return { tables, problems: problems.map(({ message }) => message) }
    return {
      tables,
      problems: [],
      changes: wordsOf(await ask<Differences>('/admin/policies/diff', { policies: tables })),
    }
  } catch (error) {
    return { problems: [(error as Problem).message] }
  }
}

const VERBS = { added: 'adds', removed: 'removes', changed: 'changes' } as const

function wordsOf({ changes }: Differences): string {
  if (changes.length === 0) return 'Valid: this is what is in force.'
  const parts = changes.map(({ policy, change, keys }) => {
    const how = keys.map(({ key, before, after }) => `${key} from ${before ?? 'nothing'} to ${after ?? 'nothing'}`)
    return `${VERBS[change]} ${policy}${change === 'changed' ? ` (${how.join('; ')})` : ''}`
  })
  return `Valid: ${parts.join(', ')}.`
}
