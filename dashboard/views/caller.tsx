/** One caller: whether it is limited or blocked, what it has used, and what can be done about it. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { CallerError } from '../../src/gateway/callers/caller-in-text.ts'
import type { ActivePolicy, CallerUsage, Policies } from '../answers.ts'
import { CallerActions } from '../parts/caller-actions.tsx'
import { Shape } from '../parts/health.tsx'
import { History } from '../parts/history.tsx'
import { Limits } from '../parts/limits.tsx'
import { useAction } from '../parts/use-action.tsx'
import { useConfirm } from '../parts/use-confirm.tsx'
import { usePolled } from '../parts/use-polled.ts'
import { KINDS, type Kind, parseTarget, type Target } from '../target.ts'
import { describeLimit, formatMoment, isForEveryone } from '../words.ts'

const USAGE_EVERY_MS = 3_000

interface CallerViewProps {
  /** Of the caller to begin with; empty for none. */
  readonly digest: string
  /** The policy that led here; empty for none. */
  readonly refusedBy: string
}

export function CallerView({ digest, refusedBy }: CallerViewProps) {
  const [found, setFound] = useState<Target | undefined>(digest ? parseTarget('digest', digest) : undefined)
  const [name, setName] = useState(digest)
  const [lookedUp, setLookedUp] = useState(0)
  const lookUp = (next: Target, named: string) => {
    setFound(next)
    setName(named)
    setLookedUp((before) => before + 1)
  }
  return (
    <>
      <h1>Callers</h1>
      <LookUp digest={digest} onFound={lookUp} />
      {found?.caller && (
        <Found
          key={lookedUp}
          name={name}
          caller={found.caller}
          target={found.target}
          refusedBy={lookedUp === 0 ? refusedBy : ''}
        />
      )}
      {found && !found.caller && <Matching key={lookedUp} name={name} target={found.target} />}
    </>
  )
}

function LookUp({ digest, onFound }: { digest: string; onFound: (found: Target, name: string) => void }) {
  const [kind, setKind] = useState<Kind>(digest ? 'digest' : 'token')
  const input = useRef<HTMLInputElement>(null)
  const check = () => input.current?.setCustomValidity(findMistake(kind, input.current.value))
  useEffect(check, [kind])
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const value = input.current?.value.trim() ?? ''
    if (value !== '') onFound(parseTarget(kind, value), kind === 'token' ? 'the caller of this token' : value)
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
function Matching({ target, name }: { target: object; name: string }) {
  const [done, setDone] = useState(0)
  const action = useAction()
  const confirm = useConfirm()
  return (
    <section aria-labelledby="found">
      <div class="verdict">
        <h2 id="found">Matching callers</h2>
        <div class="buttons">
          <CallerActions
            {...{ name, target, action, done, counting: [], caller: undefined, digests: NO_DIGESTS }}
            confirm={confirm.ask}
            onDone={() => setDone((before) => before + 1)}
          />
        </div>
      </div>
      <p class="quiet">Usage needs a full value.</p>
      {action.element}
      {confirm.element}
    </section>
  )
}

const NO_DIGESTS: ReadonlySet<string> = new Set()

interface FoundProps {
  readonly caller: object
  /** Display name. */
  readonly name: string
  /** The target of a rule. */
  readonly target: object
  /** The policy that has refused it, if only its digest is known; empty: none is known. */
  readonly refusedBy: string
}

function Found({ caller, name, target, refusedBy }: FoundProps) {
  const [done, setDone] = useState(0)
  const [plan, setPlan] = useState('')
  const action = useAction()
  const confirm = useConfirm()
  const { value: active } = usePolled<Policies>('/admin/policies', 60_000)
  const isDigest = 'digest' in caller
  const { value: usage, problem } = usePolled<CallerUsage>('/admin/usage', USAGE_EVERY_MS, { caller }, done)
  const follow = () => setDone((before) => before + 1)
  // There is no such caller.
  if (problem?.status === 400) return <p class="wrong">{problem.plain}</p>
  // Any policy may have made a digest; only those that know it matter.
  const plans = [...new Set(usage?.limits.flatMap(({ assumed, plan }) => (assumed && plan !== null ? [plan] : [])))]
  const limits = usage?.limits
    .filter((one) => plan === '' || !one.assumed || one.plan === plan)
    .map((one) => ({ ...one, assumed: one.assumed && plan === '' }))
    .filter(
      ({ policy, used, penaltyUntilMs }) => !isDigest || policy === refusedBy || used > 0 || penaltyUntilMs !== null,
    )
    // The tightest first.
    .toSorted((a, b) => b.used / b.limit - a.used / a.limit)
  const counting = (limits ?? []).map(({ policy }) => policy)
  const digests = new Set(
    (usage?.limits ?? []).filter(({ shared }) => !shared).map(({ key }) => key.slice(key.lastIndexOf('{') + 1, -1)),
  )
  const countedBy = active?.policies.filter(({ name }) => counting.includes(name)) ?? []
  const shared = isDigest && countedBy.length > 0 && countedBy.every(isForEveryone)
  return (
    <div class="matter">
      <section aria-labelledby="found">
        <h2 id="found" class="unseen">
          Usage
        </h2>
        {problem && <p class="wrong">{problem.plain}</p>}
        <div class="verdict">
          {usage && limits && (
            <p>
              <Shape tone={usage.blocked ? 'bad' : listRefusing(limits).length > 0 ? 'warn' : 'good'} />
              {describeState(usage, limits)}
            </p>
          )}
          <div class="buttons">
            <CallerActions
              {...{ name, caller, counting, action, done, digests, target: shared ? undefined : target }}
              confirm={confirm.ask}
              onDone={follow}
            />
          </div>
        </div>
        {action.element}
        {plans.length > 0 && <PlanChoice plan={plan} plans={plans} onChange={setPlan} />}
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
      </section>
      <History caller={caller} done={done} />
      {confirm.element}
    </div>
  )
}

/** Lets an operator choose the plan of a caller, since only the requests of the caller name it. */
function PlanChoice(props: { plan: string; plans: readonly string[]; onChange: (plan: string) => void }) {
  return (
    <p>
      <label for="plan">Plan of this caller </label>
      <select id="plan" value={props.plan} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <option value="">not known</option>
        {props.plans.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </p>
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

const isFull = ({ retryAfterMs, unlimited }: Limit) => retryAfterMs > 0 && !unlimited

/** Finds the limits that surely refuse the next request, the longest first: a plan that is not known, only with all others. */
function listRefusing(limits: readonly Limit[]): readonly Limit[] {
  const refusesOnEach = (policy: string) => {
    const byPlan = Map.groupBy(
      limits.filter((one) => one.policy === policy),
      ({ plan }) => plan,
    )
    return [...byPlan.values()].every((own) => own.some(isFull))
  }
  return limits
    .filter((one) => isFull(one) && (!one.assumed || refusesOnEach(one.policy)))
    .toSorted((a, b) => b.retryAfterMs - a.retryAfterMs)
}

/** Describes in one line whether a caller is limited or blocked, and until when. */
function describeState({ nowMs, blocked }: CallerUsage, limits: readonly Limit[]): string {
  return `${describeLimited(nowMs, limits)} ${blocked ? describeBlock(blocked) : 'Not blocked.'}`
}

function describeLimited(nowMs: number, limits: readonly Limit[]): string {
  const [longest] = listRefusing(limits)
  if (longest) {
    const { policy, retryAfterMs } = longest
    return `Limited by ${policy} (${describeLimit(policy, longest)}) until ${formatMoment(nowMs + retryAfterMs)}.`
  }
  const plans = [...new Set(limits.filter(isFull).map(({ plan }) => plan))]
  if (plans.length === 0) return 'Within all limits.'
  return `Limited if it is on the plan ${plans.join(' or ')}, which is not known here.`
}

function describeBlock({ status, reason, untilMs }: NonNullable<CallerUsage['blocked']>): string {
  const until = untilMs === null ? '' : ` until ${formatMoment(untilMs)}`
  return `Blocked${until} (${status})${reason === null ? '' : `: ${reason}`}.`
}
