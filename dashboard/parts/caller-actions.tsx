/** A menu of actions on a caller: those that apply to it, with the destructive ones separated. */
import { useRef } from 'preact/hooks'
import type { ActivePolicy, Ordered, Policies, ResetResult, RulesNow } from '../answers.ts'
import { createExample, formatCount, isForEveryone } from '../words.ts'
import type { Action } from './use-action.tsx'
import { type Confirm, Field, readField } from './use-confirm.tsx'
import { usePolled } from './use-polled.ts'

export interface CallerActionsProps {
  /** Display name. */
  readonly name: string
  /** Undefined for a pattern, which is no single caller. */
  readonly caller: object | undefined
  /** The target of a rule; undefined: it stands for everyone, so that none may be about it. */
  readonly target: object | undefined
  /** Names of the policies that count it, the one that it has used most of first. */
  readonly counting: readonly string[]
  readonly digests: ReadonlySet<string>
  readonly action: Action
  readonly confirm: Confirm
  /** Grows when something was done about it. */
  readonly done: number
  readonly onDone: () => void
}

export function CallerActions(props: CallerActionsProps) {
  const { name, caller, target, counting, digests, action, confirm, done, onDone } = props
  const menu = useRef<HTMLDetailsElement>(null)
  const { value: rulesNow, problem } = usePolled<RulesNow>('/admin/rules', 5_000, undefined, done)
  const { value: active } = usePolled<Policies>('/admin/policies', 60_000)
  const found = findRules(rulesNow, target, digests)
  const close = () => {
    menu.current?.removeAttribute('open')
    menu.current?.querySelector('summary')?.focus()
  }
  const run = async (path: string, body: object, doneText: string) => {
    const describe = ({ version, changed, scope }: Ordered) => {
      if (!changed)
        return 'remove' in body ? 'There is no such rule for exactly this target; see Rules.' : 'It was so already.'
      const where = scope === 'all' ? 'everywhere' : 'where a policy counts by this alone'
      return `${doneText} Saved as version ${version}; active within seconds ${where}.`
    }
    const result = await action.run(path, { target, ...body }, describe)
    onDone()
    return result
  }
  const reset = async () => {
    const describe = ({ keys }: ResetResult) =>
      `Counts reset in ${formatCount(keys.length)} ${keys.length === 1 ? 'policy' : 'policies'}.`
    const result = await action.run('/reset', { caller }, describe)
    onDone()
    return result
  }
  const limited = (active?.policies ?? [])
    .filter((each) => each.limits.length > 0 && !isForEveryone(each) && counting.includes(each.name))
    .toSorted((a, b) => counting.indexOf(a.name) - counting.indexOf(b.name))
  const canRule = target !== undefined && problem?.status !== 404
  const duration = <Field name="for" label="Duration, such as 1h (optional)" />
  const questions = [
    canRule &&
      limited.length > 0 && {
        item: 'Change limits…',
        title: `Change the limits of ${name}`,
        consequence: 'They replace the usual ones for this caller within seconds.',
        action: 'Set limits',
        content: [<Limits key="limits" policies={limited} />, duration],
        run: (form: FormData) => run('/override', readOverride(form), 'Limits changed.'),
      },
    canRule &&
      !found.allowed && {
        item: 'Allow…',
        title: `Stop limiting ${name}?`,
        consequence: 'It is still counted, and nothing refuses it.',
        action: 'Allow',
        content: duration,
        run: (form: FormData) => run('/allow', readDuration(form), 'Allowed.'),
      },
    caller !== undefined &&
      counting.length > 0 && {
        item: 'Reset…',
        title: `Reset the counts of ${name}?`,
        consequence: 'It can use all of its limits again at once. What was counted is gone.',
        action: 'Reset',
        isDangerous: true,
        run: reset,
      },
    canRule &&
      !found.blocked && {
        item: 'Block…',
        title: `Block ${name}?`,
        consequence: 'All of its requests are then refused with 403, within seconds.',
        action: 'Block',
        isDangerous: true,
        content: [
          <Field key="reason" name="reason" label="Reason (shown to the caller; optional)" maxLength={200} />,
          duration,
        ],
        run: (form: FormData) => {
          const reason = readField(form, 'reason')
          return run('/block', { ...(reason && { reason }), ...readDuration(form) }, 'Blocked.')
        },
      },
  ].filter((question) => question !== false)
  const removals = [
    ['Unblock', '/block', 'Unblocked.', found.blocked],
    ['Remove allow', '/allow', 'Limited again.', found.allowed],
    ['Remove override', '/override', 'Override removed.', found.overridden],
  ] as const
  const toItem = ({ item, ...question }: (typeof questions)[number]) => (
    <button
      key={item}
      type="button"
      class={question.isDangerous ? 'danger' : undefined}
      onClick={() => {
        close()
        confirm(question)
      }}
    >
      {item}
    </button>
  )
  return (
    <>
      {canRule &&
        removals
          .filter(([, , , applies]) => applies)
          .map(([text, path, doneText]) => (
            <button key={text} type="button" class="plain" onClick={() => run(path, { remove: true }, doneText)}>
              {text}
            </button>
          ))}
      {questions.length > 0 && (
        <details ref={menu} class="menu" onKeyDown={({ key }) => key === 'Escape' && close()}>
          <summary class="button">Actions</summary>
          <div>
            {questions.filter(({ isDangerous }) => !isDangerous).map(toItem)}
            {questions.some(({ isDangerous }) => isDangerous) && <hr />}
            {questions.filter(({ isDangerous }) => isDangerous).map(toItem)}
          </div>
        </details>
      )}
    </>
  )
}

/** Finds the rules about exactly this target. */
function findRules(now: RulesNow | undefined, target: object | undefined, digests: ReadonlySet<string>) {
  const { by, value } = (target ?? {}) as { readonly by?: string; readonly value?: string }
  const isAbout = (entry: {
    readonly by?: string | undefined
    readonly digest?: string | undefined
    readonly value?: string | undefined
  }) =>
    entry.digest === undefined
      ? value !== undefined && entry.by === by && entry.value === value
      : digests.has(entry.digest)
  return {
    blocked: now?.rules.blocks.some(isAbout) ?? false,
    allowed: now?.rules.allows.some(isAbout) ?? false,
    overridden: now?.rules.overrides.some(isAbout) ?? false,
  }
}

function readDuration(form: FormData): object {
  const lasts = readField(form, 'for')
  return lasts ? { for: lasts } : {}
}

function readOverride(form: FormData): object {
  const policy = readField(form, 'policy')
  const how = readField(form, 'how')
  const value = readField(form, 'limits')
  const effects: Readonly<Record<string, object>> = {
    limits: { limits: { [policy]: value } },
    multiplier: { multiplier: Number(value), policies: [policy] },
    unlimited: { unlimited: true, policies: [policy] },
  }
  return { ...effects[how], ...readDuration(form) }
}

/** Which limits, and what they become; a form without script, so that it is emptied with its dialog. */
function Limits({ policies }: { policies: readonly ActivePolicy[] }) {
  const [first] = policies
  return (
    <>
      <label>
        Policy
        <select name="policy">
          {policies.map(({ name }) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        Become
        <select name="how">
          <option value="limits">other limits</option>
          <option value="multiplier">a multiple of the usual</option>
          <option value="unlimited">unlimited</option>
        </select>
      </label>
      <Field
        name="limits"
        label={`New limits, such as ${first ? createExample(first) : '60/1m'}; or the multiple, such as 10`}
      />
    </>
  )
}
