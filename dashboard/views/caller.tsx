import { useEffect, useRef, useState } from 'preact/hooks'
import type { CallerError } from '../../src/gateway/callers/caller-in-text.ts'
import type { ActivePolicy, CallerUsage, Ordered, Policies, ResetResult } from '../answers.ts'
import { History } from '../parts/history.tsx'
import { Limits } from '../parts/limits.tsx'
import { Plain } from '../parts/plain.tsx'
import { type Action, useAction } from '../parts/use-action.tsx'
import { useConfirm } from '../parts/use-confirm.tsx'
import { usePolled } from '../parts/use-polled.ts'
import { KINDS, type Kind, parseTarget, type Target } from '../target.ts'
import { createExample, describeLimit, formatCount, formatMoment, isForEveryone } from '../words.ts'

const USAGE_EVERY_MS = 3_000

interface CallerViewProps {
  /** Of the caller to begin with; empty for none. */
  readonly digest: string
  /** The policy that led here; empty for none. */
  readonly refusedBy: string
}

export function CallerView({ digest, refusedBy }: CallerViewProps) {
  const [found, setFound] = useState<Target | undefined>(digest ? parseTarget('digest', digest) : undefined)
  const [lookedUp, setLookedUp] = useState(0)
  const lookUp = (next: Target) => {
    setFound(next)
    setLookedUp((before) => before + 1)
  }
  return (
    <>
      <h1>Callers</h1>
      <LookUp digest={digest} onFound={lookUp} />
      {found?.caller && (
        <Found key={lookedUp} caller={found.caller} target={found.target} refusedBy={lookedUp === 0 ? refusedBy : ''} />
      )}
      {found && !found.caller && <Matching key={lookedUp} target={found.target} />}
    </>
  )
}

function LookUp({ digest, onFound }: { digest: string; onFound: (found: Target) => void }) {
  const [kind, setKind] = useState<Kind>(digest ? 'digest' : 'token')
  const input = useRef<HTMLInputElement>(null)
  const check = () => input.current?.setCustomValidity(findMistake(kind, input.current.value))
  useEffect(check, [kind])
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const value = input.current?.value.trim() ?? ''
    if (value !== '') onFound(parseTarget(kind, value))
  }
  const { hint } = KINDS[kind]
  return (
    <form class="look-up" onSubmit={submit}>
      <div>
        <label for="kind">Identify by</label>
        <select id="kind" value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)}>
          {Object.entries(KINDS).map(([name, { title }]) => (
            <option key={name} value={name}>
              {title}
            </option>
          ))}
        </select>
      </div>
      <div>
        <label for="value">Value</label>
        <input
          id="value"
          ref={input}
          defaultValue={digest}
          autocomplete="off"
          spellcheck={false}
          required
          onInput={check}
          {...(hint && { 'aria-describedby': 'hint' })}
        />
      </div>
      <button type="submit">Look up</button>
      {hint && (
        <p id="hint" class="quiet">
          {hint}
        </p>
      )}
    </form>
  )
}

/** Empty if there is none. */
function findMistake(kind: Kind, text: string): string {
  try {
    parseTarget(kind, text.trim())
    return ''
  } catch (error) {
    return (error as CallerError).message
  }
}

/** All callers whose value matches a pattern. */
function Matching({ target }: { target: object }) {
  const confirm = useConfirm()
  return (
    <section aria-labelledby="found">
      <h2 id="found">Matching callers</h2>
      <p class="quiet">Usage needs a full value.</p>
      <Rules target={target} counting={undefined} confirm={confirm.ask} onDone={() => {}} />
      {confirm.element}
    </section>
  )
}

interface FoundProps {
  readonly caller: object
  /** The target of a rule. */
  readonly target: object
  /** The policy that has refused it, if only its digest is known; empty: none is known. */
  readonly refusedBy: string
}

function Found({ caller, target, refusedBy }: FoundProps) {
  const [done, setDone] = useState(0)
  const action = useAction()
  const confirm = useConfirm()
  const { value: active } = usePolled<Policies>('/admin/policies', 60_000)
  const isDigest = 'digest' in caller
  const { value: usage, problem } = usePolled<CallerUsage>('/admin/usage', USAGE_EVERY_MS, { caller }, done)
  const follow = () => setDone((before) => before + 1)
  const reset = async () => {
    const describe = ({ keys }: ResetResult) =>
      `Counts reset in ${formatCount(keys.length)} ${keys.length === 1 ? 'policy' : 'policies'}.`
    await action.run('/reset', { caller }, describe)
    follow()
  }
  // There is no such caller.
  if (problem?.status === 400) return <p class="wrong">{problem.plain}</p>
  // Any policy may have made a digest; only those that know it matter.
  const limits = usage?.limits
    .filter(
      ({ policy, used, penaltyUntilMs }) => !isDigest || policy === refusedBy || used > 0 || penaltyUntilMs !== null,
    )
    // The tightest first.
    .toSorted((a, b) => b.used / b.limit - a.used / a.limit)
  const counting = (limits ?? []).map(({ policy }) => policy)
  const countedBy = active?.policies.filter(({ name }) => counting.includes(name)) ?? []
  const shared = isDigest && countedBy.length > 0 && countedBy.every(isForEveryone)
  return (
    <section aria-labelledby="found">
      <h2 id="found">Usage</h2>
      {problem && <p class="wrong">{problem.plain}</p>}
      {usage && limits && <p class={usage.blocked ? 'wrong' : undefined}>{describeState(usage, limits)}</p>}
      {isDigest && <Scope countedBy={countedBy} shared={shared} />}
      {limits && limits.length > 0 && <Limits limits={limits} />}
      {limits?.length === 0 && (
        <p>{isDigest ? 'No policy has counted anything by this recently.' : 'No policy counts by this alone.'}</p>
      )}
      {usage?.skipped.map(({ policy, reason }) => (
        <p key={policy} class="quiet">
          {policy}: skipped ({reason})
        </p>
      ))}
      {limits && limits.length > 0 && (
        <div class="buttons">
          <button
            type="button"
            onClick={() =>
              confirm.ask(
                'Reset all counts of this caller? It can use all of its limits again at once.',
                'Reset',
                reset,
              )
            }
          >
            Reset
          </button>
        </div>
      )}
      {action.element}
      {!shared && <Rules target={target} counting={counting} confirm={confirm.ask} onDone={follow} />}
      <History caller={caller} done={done} />
      {confirm.element}
    </section>
  )
}

/** Requests that rules about a digest alone apply to. */
function Scope({ countedBy, shared }: { countedBy: readonly ActivePolicy[]; shared: boolean }) {
  const places = countedBy.map(
    ({ name, by, match }) => `${name} (${by.join(' + ')}${match ? `, ${match.join(', ')}` : ''})`,
  )
  if (shared) {
    return (
      <p>This digest stands for all callers: {places.join(' and ')} counts them together, so no rule can target it.</p>
    )
  }
  return (
    <p class="quiet">
      Rules about a digest apply only where a policy counts by exactly these values
      {places.length > 0 && `: ${places.join('; ')}`}. Look the caller up by a value that it sends to target all of its
      requests.
    </p>
  )
}

type Limit = CallerUsage['limits'][number]

/** Describes in one line whether a caller is limited or blocked, and until when. */
function describeState({ nowMs, blocked }: CallerUsage, limits: CallerUsage['limits']): string {
  const isFull = ({ retryAfterMs, unlimited }: Limit) => retryAfterMs > 0 && !unlimited
  // If the plan is not known, it is limited only where it would be on each.
  const isCertain = ({ policy, assumed }: Limit) =>
    !assumed ||
    Object.values(
      Object.groupBy(
        limits.filter((one) => one.policy === policy),
        ({ plan }) => `${plan}`,
      ),
    ).every((own) => own?.some(isFull))
  const full = limits.filter(isFull)
  const [longest] = full.filter(isCertain).toSorted((a, b) => b.retryAfterMs - a.retryAfterMs)
  const plans = [...new Set(full.map(({ plan }) => plan))]
  const within =
    plans.length === 0
      ? 'Within all limits.'
      : `Limited if it is on the plan ${plans.join(' or ')}, which is not known here.`
  const limited = longest
    ? `Limited by ${longest.policy} (${describeLimit(longest.policy, longest)}) until ${formatMoment(nowMs + longest.retryAfterMs)}.`
    : within
  return `${limited} ${blocked ? describeBlock(blocked) : 'Not blocked.'}`
}

function describeBlock({ status, reason, untilMs }: NonNullable<CallerUsage['blocked']>): string {
  const until = untilMs === null ? '' : ` until ${formatMoment(untilMs)}`
  return `Blocked${until} (${status})${reason === null ? '' : `: ${reason}`}.`
}

interface RulesProps {
  readonly target: object
  /** Names of the policies that count it, the one that it has used most of first; undefined: they are not known. */
  readonly counting: readonly string[] | undefined
  readonly confirm: (text: string, action: string, run: () => void) => void
  readonly onDone: () => void
}

function Rules({ target, counting, confirm, onDone }: RulesProps) {
  const action = useAction()
  const { problem } = usePolled('/admin/rules', 30_000)
  if (problem?.status === 404) return <p class="quiet">{problem.message}</p>
  const run: Run = async (path, body, done) => {
    const describe = ({ version, changed, scope }: Ordered) => {
      if (!changed)
        return 'remove' in body ? 'There is no such rule for exactly this target; see Rules.' : 'It was so already.'
      const where = scope === 'all' ? 'everywhere' : 'where a policy counts by this alone'
      return `${done} Saved as version ${version}; active within seconds ${where}.`
    }
    await action.run(path, { target, ...body }, describe)
    onDone()
  }
  return (
    <>
      <h2>Rules</h2>
      <Override run={run} action={action} counting={counting} />
      <Block run={run} action={action} confirm={confirm} />
      <div class="buttons">
        <Plain onClick={() => run('/block', { remove: true }, 'Unblocked.')}>Unblock</Plain>
        <Plain
          onClick={() =>
            confirm('Stop limiting this caller? It is counted, and nothing refuses it.', 'Allow', () =>
              run('/allow', {}, 'Allowed.'),
            )
          }
        >
          Allow
        </Plain>
        <Plain onClick={() => run('/allow', { remove: true }, 'Limited again.')}>Remove allow</Plain>
        <Plain onClick={() => run('/override', { remove: true }, 'Override removed.')}>Remove override</Plain>
      </div>
      {action.element}
    </>
  )
}

type Run = (path: string, body: object, done: string) => Promise<void>

function Block({ run, action, confirm }: { run: Run; action: Action; confirm: RulesProps['confirm'] }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const [reason, lasts] = ['reason', 'for'].map((name) => String(form.get(name)).trim())
    const body = { ...(reason && { reason }), ...(lasts && { for: lasts }) }
    confirm(
      `Block this caller${lasts ? ` for ${lasts}` : ''}? All of its requests are then refused with 403.`,
      'Block',
      () => run('/block', body, 'Blocked.'),
    )
  }
  return (
    <form class="row" onSubmit={submit}>
      <div>
        <label for="reason">Reason (shown to the caller; optional)</label>
        <input id="reason" name="reason" maxLength={200} />
      </div>
      <div>
        <label for="block-for">Duration, such as 1h (optional)</label>
        <input id="block-for" name="for" />
      </div>
      <button type="submit" class="danger" disabled={action.isBusy}>
        Block
      </button>
    </form>
  )
}

function Override({ run, action, counting }: { run: Run; action: Action } & Pick<RulesProps, 'counting'>) {
  const { value } = usePolled<Policies>('/admin/policies', 60_000)
  const [policy, setPolicy] = useState('')
  const own = value?.policies.filter((each) => each.limits.length > 0 && !isForEveryone(each)) ?? []
  const findRank = ({ name }: ActivePolicy) => counting?.indexOf(name) ?? 0
  const limiting = own.filter((each) => findRank(each) >= 0).toSorted((a, b) => findRank(a) - findRank(b))
  const chosen = limiting.find(({ name }) => name === policy) ?? limiting[0]
  if (!chosen) return null
  const { name } = chosen
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const limits = String(form.get('limits')).trim()
    const lasts = String(form.get('for')).trim()
    run('/override', { limits: { [name]: limits }, ...(lasts && { for: lasts }) }, `Limits of ${name} changed.`)
  }
  return (
    <form class="row" onSubmit={submit}>
      <div>
        <label for="policy">Policy</label>
        <select id="policy" value={name} onChange={(event) => setPolicy(event.currentTarget.value)}>
          {limiting.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </div>
      <div>
        <label for="limits">New limits, such as {createExample(chosen)}</label>
        <input id="limits" name="limits" required />
      </div>
      <div>
        <label for="for">Duration, such as 1h (optional)</label>
        <input id="for" name="for" />
      </div>
      <button type="submit" disabled={action.isBusy}>
        Set limits
      </button>
    </form>
  )
}
