import { useEffect, useRef, useState } from 'preact/hooks'
import type { CallerError } from '../../src/request/caller/caller-error.ts'
import type { CallerUsage, Edited, Forgotten, Policies } from '../answers.ts'
import { ask, type Problem } from '../api.ts'
import { History } from '../parts/history.tsx'
import { Said } from '../parts/said.tsx'
import { Tiers } from '../parts/tiers.tsx'
import { type Act, useAct } from '../parts/use-act.ts'
import { usePolled } from '../parts/use-polled.ts'
import { useSure } from '../parts/use-sure.tsx'
import { KINDS, type Kind, type Named, named } from '../who.ts'
import { count, moment } from '../words.ts'

const USAGE_EVERY_MS = 3_000

/** @param digest of the caller to begin with; empty for none */
export function CallerView({ digest }: { digest: string }) {
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
      {found?.caller && <Found key={lookedUp} caller={found.caller} who={found.who} />}
      {found?.who && !found.caller && <Alike key={lookedUp} who={found.who} />}
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
function Alike({ who }: { who: object }) {
  const sure = useSure()
  return (
    <section aria-labelledby="found">
      <h2 id="found">All that are like it</h2>
      <p class="quiet">What each of them has used is told by its whole value.</p>
      <Orders who={who} sure={sure.ask} onDone={() => {}} />
      {sure.element}
    </section>
  )
}

interface FoundProps {
  readonly caller: object
  /** As rules name it; undefined: they cannot. */
  readonly who: object | undefined
}

function Found({ caller, who }: FoundProps) {
  const [usage, setUsage] = useState<CallerUsage>()
  const [problem, setProblem] = useState<Problem>()
  const [done, setDone] = useState(0)
  const act = useAct()
  const sure = useSure()
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
  return (
    <section aria-labelledby="found">
      <h2 id="found">What it has used</h2>
      {problem && <p class="wrong">{problem.plain}</p>}
      {usage?.blocked && <p class="wrong">{blockedInWords(usage.blocked)}</p>}
      {usage && usage.tiers.length > 0 && <Tiers tiers={usage.tiers} />}
      {usage?.tiers.length === 0 && <p>No policy counts a caller by this alone.</p>}
      {usage?.leftOut.map(({ policy, why }) => (
        <p key={policy} class="quiet">
          {policy}: not asked, {why}
        </p>
      ))}
      {usage && usage.tiers.length > 0 && (
        <div class="buttons">
          <button type="button" onClick={() => sure.ask('Forget what this caller has used?', reset)}>
            Reset
          </button>
        </div>
      )}
      <Said act={act} />
      {who ? (
        <Orders who={who} sure={sure.ask} onDone={follow} />
      ) : (
        <p class="quiet">No rule can be about it: rules are looked up before a body is read.</p>
      )}
      <History caller={caller} done={done} />
      {sure.element}
    </section>
  )
}

function blockedInWords({ status, reason, untilMs }: NonNullable<CallerUsage['blocked']>): string {
  const until = untilMs === null ? '' : ` until ${moment(untilMs)}`
  return `Not let in${until}: answered ${status}${reason === null ? '' : `, ${reason}`}.`
}

interface OrdersProps {
  readonly who: object
  readonly sure: (text: string, act: () => void) => void
  readonly onDone: () => void
}

/** What can be ruled for them. */
function Orders({ who, sure, onDone }: OrdersProps) {
  const act = useAct()
  const { problem } = usePolled('/admin/rules', 30_000)
  if (problem?.status === 404) return <p class="quiet">{problem.message}</p>
  const run: Run = async (path, body, said) => {
    const told = ({ version }: Edited) => `${said} It is version ${version}, and holds everywhere within seconds.`
    await act.run(path, { who, ...body }, told)
    onDone()
  }
  return (
    <>
      <h2>What holds for it</h2>
      <Raise run={run} act={act} />
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

function Raise({ run, act }: { run: Run; act: Act }) {
  const { value } = usePolled<Policies>('/admin/policies', 60_000)
  const [policy, setPolicy] = useState('')
  const limiting = value?.policies.filter(({ tiers }) => tiers.length > 0) ?? []
  const name = policy || limiting[0]?.name || ''
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
        <label for="limits">Other limits, such as 600/1m</label>
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
