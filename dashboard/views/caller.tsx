import { useEffect, useState } from 'preact/hooks'
import type { CallerUsage, Edited, Forgotten, Policies } from '../answers.ts'
import { ask, type Problem } from '../api.ts'
import { History } from '../parts/history.tsx'
import { Said } from '../parts/said.tsx'
import { Tiers } from '../parts/tiers.tsx'
import { type Act, useAct } from '../parts/use-act.ts'
import { usePolled } from '../parts/use-polled.ts'
import { useSure } from '../parts/use-sure.tsx'
import { count, moment } from '../words.ts'

const KINDS = {
  token: 'Token (sent as Authorization)',
  ip: 'Address, such as 203.0.113.7',
  digest: 'Digest (22 letters, as keys and logs have it)',
  header: 'Header, such as x-api-key=k-123',
  claim: 'Claim of its token, such as sub=alice',
} as const
type Kind = keyof typeof KINDS

type Caller = Readonly<Record<string, unknown>>

const USAGE_EVERY_MS = 3_000

/** @param digest of the caller to begin with; empty for none */
export function CallerView({ digest }: { digest: string }) {
  const [caller, setCaller] = useState<Caller | undefined>(digest ? { digest } : undefined)
  const [lookedUp, setLookedUp] = useState(0)
  const lookUp = (next: Caller) => {
    setCaller(next)
    setLookedUp((before) => before + 1)
  }
  return (
    <>
      <h1>Caller</h1>
      <LookUp digest={digest} onFound={lookUp} />
      {caller && <Found key={lookedUp} caller={caller} />}
    </>
  )
}

function LookUp({ digest, onFound }: { digest: string; onFound: (caller: Caller) => void }) {
  const [kind, setKind] = useState<Kind>(digest ? 'digest' : 'token')
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const value = String(new FormData(event.currentTarget as HTMLFormElement).get('value')).trim()
    if (value !== '') onFound(callerOf(kind, value))
  }
  return (
    <form class="look-up" onSubmit={submit}>
      <div>
        <label for="kind">Known by</label>
        <select id="kind" value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)}>
          {Object.entries(KINDS).map(([name, title]) => (
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
          name="value"
          defaultValue={digest}
          autocomplete="off"
          spellcheck={false}
          required
          // Always there: a pattern that is taken away again would be an empty one, which nothing matches.
          pattern={isPair(kind) ? '[^=\\s]+=.+' : '.*'}
          title={isPair(kind) ? 'a name and a value with = between' : ''}
        />
      </div>
      <button type="submit">Look up</button>
    </form>
  )
}

function callerOf(kind: Kind, value: string): Caller {
  if (!isPair(kind)) return { [kind]: value }
  const at = value.indexOf('=')
  return { [kind]: { [value.slice(0, at).trim()]: value.slice(at + 1).trim() } }
}

function isPair(kind: Kind): boolean {
  return kind === 'header' || kind === 'claim'
}

function Found({ caller }: { caller: Caller }) {
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
      <Orders who={caller} sure={sure.ask} onDone={follow} />
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
  readonly who: Caller
  readonly sure: (text: string, act: () => void) => void
  readonly onDone: () => void
}

/** What can be ruled for this caller. */
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
