import { useEffect, useRef, useState } from 'preact/hooks'
import type { CallerError } from '../../src/request/caller/caller-in-text.ts'
import type { CallerUsage, Forgotten, Ordered, Policies, PolicyInForce } from '../answers.ts'
import { ask, type Problem } from '../api.ts'
import { History } from '../parts/history.tsx'
import { Limits } from '../parts/limits.tsx'
import { Said } from '../parts/said.tsx'
import { type Act, useAct } from '../parts/use-act.ts'
import { usePolled } from '../parts/use-polled.ts'
import { useSure } from '../parts/use-sure.tsx'
import { KINDS, type Kind, type Named, named } from '../target.ts'
import { count, exampleOf, isForEveryone, moment } from '../words.ts'

const USAGE_EVERY_MS = 3_000

interface CallerViewProps {
  /** Of the caller to begin with; empty for none. */
  readonly digest: string
  /** The policy that led here; empty for none. */
  readonly refusedBy: string
}

export function CallerView({ digest, refusedBy }: CallerViewProps) {
  const [found, setFound] = useState<Named | undefined>(digest ? named('digest', digest) : undefined)
  const [lookedUp, setLookedUp] = useState(0)
  const lookUp = (next: Named) => {
    setFound(next)
    setLookedUp((before) => before + 1)
  }
  return (
    <>
      <h1>Caller</h1>
      <LookUp digest={digest} onFound={lookUp} />
      {found?.caller && (
        <Found key={lookedUp} caller={found.caller} target={found.target} refusedBy={lookedUp === 0 ? refusedBy : ''} />
      )}
      {found && !found.caller && <Alike key={lookedUp} target={found.target} />}
    </>
  )
}

function LookUp({ digest, onFound }: { digest: string; onFound: (found: Named) => void }) {
  const [kind, setKind] = useState<Kind>(digest ? 'digest' : 'token')
  const input = useRef<HTMLInputElement>(null)
  const check = () => input.current?.setCustomValidity(mistakeIn(kind, input.current.value))
  useEffect(check, [kind])
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const value = input.current?.value.trim() ?? ''
    if (value !== '') onFound(named(kind, value))
  }
  const { hint } = KINDS[kind]
  return (
    <form class="look-up" onSubmit={submit}>
      <div>
        <label for="kind">Known by</label>
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
function mistakeIn(kind: Kind, text: string): string {
  try {
    named(kind, text.trim())
    return ''
  } catch (error) {
    return (error as CallerError).message
  }
}

/** All whose value is like a pattern. */
function Alike({ target }: { target: object }) {
  const sure = useSure()
  return (
    <section aria-labelledby="found">
      <h2 id="found">All that are like it</h2>
      <p class="quiet">What each of them has used is told by its whole value.</p>
      <Orders target={target} counting={undefined} sure={sure.ask} onDone={() => {}} />
      {sure.element}
    </section>
  )
}

interface FoundProps {
  readonly caller: object
  /** As rules name it. */
  readonly target: object
  /** The policy that has refused it, if only its digest is known; empty: none is known. */
  readonly refusedBy: string
}

function Found({ caller, target, refusedBy }: FoundProps) {
  const [usage, setUsage] = useState<CallerUsage>()
  const [problem, setProblem] = useState<Problem>()
  const [done, setDone] = useState(0)
  const act = useAct()
  const sure = useSure()
  const { value: inForce } = usePolled<Policies>('/admin/policies', 60_000)
  const isDigest = 'digest' in caller
  const refresh = async () => {
    try {
      setUsage(await ask<CallerUsage>('/admin/usage', { caller }))
      setProblem(undefined)
    } catch (error) {
      setProblem(error as Problem)
    }
  }
  useEffect(() => {
    refresh()
    const timer = setInterval(refresh, USAGE_EVERY_MS)
    return () => clearInterval(timer)
  }, [caller])

  const follow = async () => {
    setDone((before) => before + 1)
    await refresh()
  }
  const reset = async () => {
    const told = ({ keys }: Forgotten) =>
      `Forgotten: what ${count(keys.length)} ${keys.length === 1 ? 'policy' : 'policies'} had counted.`
    await act.run('/reset', { caller }, told)
    await follow()
  }
  // There is no such caller.
  if (problem?.status === 400) return <p class="wrong">{problem.plain}</p>
  // Any policy may have made a digest. It is about those that know it.
  const limits = usage?.limits.filter(
    ({ policy, used, penaltyUntilMs }) => !isDigest || policy === refusedBy || used > 0 || penaltyUntilMs !== null,
  )
  const counting = (limits ?? []).toSorted((a, b) => b.used / b.limit - a.used / a.limit).map(({ policy }) => policy)
  const countedBy = inForce?.policies.filter(({ name }) => counting.includes(name)) ?? []
  const shared = isDigest && countedBy.length > 0 && countedBy.every(isForEveryone)
  return (
    <section aria-labelledby="found">
      <h2 id="found">What it has used</h2>
      {problem && <p class="wrong">{problem.plain}</p>}
      {usage?.blocked && <p class="wrong">{blockedInWords(usage.blocked)}</p>}
      {isDigest && <Scope countedBy={countedBy} shared={shared} />}
      {limits && limits.length > 0 && <Limits limits={limits} />}
      {limits?.length === 0 && (
        <p>
          {isDigest ? 'No policy has counted anything by this lately.' : 'No policy counts a caller by this alone.'}
        </p>
      )}
      {usage?.skipped.map(({ policy, reason }) => (
        <p key={policy} class="quiet">
          {policy}: not asked, {reason}
        </p>
      ))}
      {limits && limits.length > 0 && (
        <div class="buttons">
          <button type="button" onClick={() => sure.ask('Forget what this caller has used?', reset)}>
            Reset
          </button>
        </div>
      )}
      <Said act={act} />
      {!shared && <Orders target={target} counting={counting} sure={sure.ask} onDone={follow} />}
      <History caller={caller} done={done} />
      {sure.element}
    </section>
  )
}

/** What rules about a digest alone are about. */
function Scope({ countedBy, shared }: { countedBy: readonly PolicyInForce[]; shared: boolean }) {
  const places = countedBy.map(
    ({ name, by, match }) => `${name} (${by.join(' + ')}${match ? `, ${match.join(', ')}` : ''})`,
  )
  if (shared) {
    return (
      <p>This is everyone: {places.join(' and ')} counts all callers together. No rule about one caller can name it.</p>
    )
  }
  return (
    <p class="quiet">
      Rules about a digest hold only where a policy counts by all that it was made of
      {places.length > 0 && `: ${places.join('; ')}`}. Look the caller up by what it sends to rule for all of its
      requests.
    </p>
  )
}

function blockedInWords({ status, reason, untilMs }: NonNullable<CallerUsage['blocked']>): string {
  const until = untilMs === null ? '' : ` until ${moment(untilMs)}`
  return `Not let in${until}: answered ${status}${reason === null ? '' : `, ${reason}`}.`
}

interface OrdersProps {
  readonly target: object
  /** Names of the policies that count it, the one that it has used most of first; undefined: they are not known. */
  readonly counting: readonly string[] | undefined
  readonly sure: (text: string, act: () => void) => void
  readonly onDone: () => void
}

/** What can be ruled for them. */
function Orders({ target, counting, sure, onDone }: OrdersProps) {
  const act = useAct()
  const { problem } = usePolled('/admin/rules', 30_000)
  if (problem?.status === 404) return <p class="quiet">{problem.message}</p>
  const run: Run = async (path, body, said) => {
    const told = ({ version, scope }: Ordered) =>
      `${said} It is version ${version}, and holds within seconds ${scope === 'all' ? 'everywhere' : 'where a policy counts by this alone'}.`
    await act.run(path, { target, ...body }, told)
    onDone()
  }
  return (
    <>
      <h2>What holds for it</h2>
      <Raise run={run} act={act} counting={counting} />
      <Block run={run} act={act} sure={sure} />
      <div class="buttons">
        <button type="button" class="plain" onClick={() => run('/block', { remove: true }, 'No longer blocked.')}>
          Unblock
        </button>
        <button
          type="button"
          class="plain"
          onClick={() => run('/override', { remove: true }, 'The usual limits hold.')}
        >
          Usual limits
        </button>
      </div>
      <Said act={act} />
    </>
  )
}

type Run = (path: string, body: object, said: string) => Promise<void>

function Block({ run, act, sure }: { run: Run; act: Act; sure: OrdersProps['sure'] }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const [reason, lasts] = ['reason', 'for'].map((name) => String(form.get(name)).trim())
    const body = { ...(reason && { reason }), ...(lasts && { for: lasts }) }
    sure('Let this caller in no more?', () => run('/block', body, 'Blocked.'))
  }
  return (
    <form class="row" onSubmit={submit}>
      <div>
        <label for="reason">Reason, which it is told (or none)</label>
        <input id="reason" name="reason" maxLength={200} />
      </div>
      <div>
        <label for="block-for">How long, such as 1h (or no end)</label>
        <input id="block-for" name="for" />
      </div>
      <button type="submit" class="danger" disabled={act.isBusy}>
        Block
      </button>
    </form>
  )
}

function Raise({ run, act, counting }: { run: Run; act: Act } & Pick<OrdersProps, 'counting'>) {
  const { value } = usePolled<Policies>('/admin/policies', 60_000)
  const [policy, setPolicy] = useState('')
  const own = value?.policies.filter((each) => each.limits.length > 0 && !isForEveryone(each)) ?? []
  const rankOf = ({ name }: PolicyInForce) => counting?.indexOf(name) ?? 0
  const limiting = own.filter((each) => rankOf(each) >= 0).toSorted((a, b) => rankOf(a) - rankOf(b))
  const chosen = limiting.find(({ name }) => name === policy) ?? limiting[0]
  if (!chosen) return null
  const { name } = chosen
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const limits = String(form.get('limits')).trim()
    const lasts = String(form.get('for')).trim()
    run('/override', { limits: { [name]: limits }, ...(lasts && { for: lasts }) }, `"${name}" has other limits.`)
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
        <label for="limits">Other limits, such as {exampleOf(chosen)}</label>
        <input id="limits" name="limits" required />
      </div>
      <div>
        <label for="for">For so long, such as 1h (or no end)</label>
        <input id="for" name="for" />
      </div>
      <button type="submit" disabled={act.isBusy}>
        Set limits
      </button>
    </form>
  )
}
