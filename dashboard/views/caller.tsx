/** One caller: whether it is limited or blocked, what it has used, and what can be done about it. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { findNextRequest, listDoubts, type NextRequest } from '../../src/gateway/admin/next-request.ts'
import type { CallerError } from '../../src/gateway/callers/caller-in-text.ts'
import { formatBlock, formatOverride } from '../../src/gateway/rules/format-rules.ts'
import type { ActivePolicy, CallerUsage, Counted, Entry, Policies, RulesNow } from '../answers.ts'
import { CallerActions } from '../parts/caller-actions.tsx'
import { CallerLink } from '../parts/caller-link.tsx'
import { DataTable } from '../parts/data-table.tsx'
import { Shape } from '../parts/health.tsx'
import { History } from '../parts/history.tsx'
import { Limits } from '../parts/limits.tsx'
import { Moment } from '../parts/moment.tsx'
import { useAction } from '../parts/use-action.tsx'
import { useConfirm } from '../parts/use-confirm.tsx'
import { usePolled } from '../parts/use-polled.ts'
import { KINDS, type Kind, parseTarget, type Target } from '../target.ts'
import { describeLimit, formatMoment, formatRange, isForEveryone } from '../words.ts'

const USAGE_EVERY_MS = 3_000
const KNOWN_EVERY_MS = 10_000

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
      <h1 tabIndex={-1}>Callers</h1>
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
      {!found && <KnownCallers />}
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
              <Shape tone={TONES[findNextRequest(usage, limits).kind]} />
              {describeState(usage, limits, active)}
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
        {usage &&
          listDoubts(usage.active, usage.undecided).map((doubt) => (
            <p key={doubt} class="warn">
              {doubt}
            </p>
          ))}
        {action.element}
        {plans.length > 0 && <PlanChoice plan={plan} plans={plans} onChange={setPlan} />}
        {isDigest && <Scope countedBy={countedBy} shared={shared} />}
        {limits && limits.length > 0 && <Limits limits={limits} />}
        {limits?.length === 0 && (
          <p>{isDigest ? 'No policy has counted anything by this recently.' : 'No policy counts by this alone.'}</p>
        )}
        {usage && usage.skipped.length > 0 && <p class="quiet">{describeSkipped(usage.skipped)}</p>}
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

const TONES = { blocked: 'bad', limited: 'warn', depends: 'warn', allowed: 'good', admitted: 'good' } as const

/** Describes in one line what the next request of a caller meets. */
function describeState(usage: CallerUsage, limits: readonly Limit[], active: Policies | undefined): string {
  const next = findNextRequest(usage, limits)
  if (next.kind === 'blocked') return describeBlock(next.block)
  const shadowed = usage.blocked ? ' A block would apply, but MODE is shadow.' : ''
  return `${describeLimited(next, usage.nowMs, active)}${shadowed || ' Not blocked.'}`
}

type Unblocked = Exclude<NextRequest<Limit>, { kind: 'blocked' }>

function describeLimited(next: Unblocked, nowMs: number, active: Policies | undefined): string {
  if (next.kind === 'allowed') return 'Allowed: it is counted, and nothing limits it.'
  if (next.kind === 'admitted') return 'Within all limits.'
  if (next.kind === 'depends')
    return `Limited if it is on the plan ${next.plans.join(' or ')}, which is not known here.`
  const { policy, retryAfterMs } = next.limit
  const match = active?.policies.find(({ name }) => name === policy)?.match
  const where = match ? `, for ${match.join(', ')}` : ''
  return `Limited by ${policy} (${describeLimit(policy, next.limit)}${where}) until ${formatMoment(nowMs + retryAfterMs)}.`
}

function describeBlock({ status, reason, untilMs }: NonNullable<CallerUsage['blocked']>): string {
  const until = untilMs === null ? '' : ` until ${formatMoment(untilMs)}`
  return `Blocked${until} (${status})${reason === null ? '' : `: ${reason}`}.`
}

/** In one sentence for each reason. */
function describeSkipped(skipped: CallerUsage['skipped']): string {
  const reasons = [...new Set(skipped.map(({ reason }) => reason))]
  const parts = reasons.map((reason) => {
    const names = skipped.filter((one) => one.reason === reason).map(({ policy }) => policy)
    return `${names.join(', ')} (${reason})`
  })
  return `Not shown, as nothing here says how they count this caller: ${parts.join('; ')}.`
}

/** Callers of whom something is known: those that were refused, and those that rules name. */
function KnownCallers() {
  const { value: counted, problem } = usePolled<Counted>('/admin/statistics?by=hour&periods=24', KNOWN_EVERY_MS)
  const { value: now } = usePolled<RulesNow>('/admin/rules', KNOWN_EVERY_MS)
  const rows = listKnown(counted, now)
  return (
    <section aria-labelledby="known">
      <h2 id="known">Refused, blocked, allowed and overridden</h2>
      {rows.length > 0 && (
        <DataTable
          label="Known callers"
          rows={rows}
          toKey={({ digest, what }) => `${digest} ${what}`}
          columns={[
            {
              name: 'caller',
              value: ({ digest, label }) => `${label ?? ''} ${digest}`,
              cell: (row) => <CallerLink {...row} />,
            },
            { name: 'what', value: ({ what }) => what },
            {
              name: 'last refused',
              value: ({ lastMs }) => lastMs,
              cell: ({ lastMs }) => <Moment ms={lastMs} />,
              isText: true,
            },
          ]}
          brief={['what']}
        />
      )}
      <p class="quiet">
        {rows.length === 0 && (counted && now ? 'None in the last 24 hours. ' : 'Loading, or not known. ')}
        {problem?.message} Refusals are of the last 24 hours; rules about networks, countries and wildcards are under
        Rules.
      </p>
    </section>
  )
}

function listKnown(counted: Counted | undefined, now: RulesNow | undefined) {
  const findLastMs = (digest: string, policy?: string) =>
    counted?.recent.find((one) => one.digest === digest && (policy === undefined || one.policy === policy))?.atMs ?? 0
  const named = (entries: readonly Entry[] = [], describe: (entry: Entry) => string) =>
    entries.flatMap((entry) => {
      const { digest, by } = entry
      const label = counted?.refused.callers.find((one) => one.digest === digest)?.label
      const what = `${describe(entry)}${by === undefined ? '' : `, by ${by}`}`
      return digest === undefined ? [] : [{ digest, label, policy: '', what, lastMs: findLastMs(digest) }]
    })
  const refused = (counted?.refused.callers ?? []).filter(({ shared }) => !shared)
  return [
    ...named(now?.rules.blocks, (entry) => `blocked, ${formatBlock(entry)}`),
    ...named(now?.rules.allows, () => 'allowed'),
    ...named(now?.rules.overrides, (entry) => `override: ${formatOverride(entry)}`),
    ...refused.map(({ digest, label, policy, min, max }) => {
      const what = `refused ${formatRange(min, max)} times by ${policy}`
      return { digest, label, policy, what, lastMs: findLastMs(digest, policy) }
    }),
  ]
}
