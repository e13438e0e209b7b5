import { useEffect, useState } from 'preact/hooks'
import type { CallerUsage, Forgotten } from '../answers.ts'
import { ask, type Problem } from '../api.ts'
import { Tiers } from '../parts/tiers.tsx'
import { useSure } from '../parts/use-sure.tsx'
import { count } from '../words.ts'

const KINDS = {
  token: 'Token (what it sends as Authorization)',
  ip: 'Address',
  digest: 'Digest (as keys and logs have it)',
  header: 'Header, as name=value',
} as const
type Kind = keyof typeof KINDS

type Caller = Readonly<Record<string, unknown>>

/** @param digest of the caller to begin with; empty for none */
export function CallerView({ digest }: { digest: string }) {
  const [caller, setCaller] = useState<Caller | undefined>(digest ? { digest } : undefined)
  return (
    <>
      <h1>Caller</h1>
      <LookUp digest={digest} onFound={setCaller} />
      {caller && <Found caller={caller} />}
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
        <input id="value" name="value" defaultValue={digest} autocomplete="off" spellcheck={false} required />
      </div>
      <button type="submit">Look up</button>
    </form>
  )
}

function callerOf(kind: Kind, value: string): Caller {
  if (kind !== 'header') return { [kind]: value }
  const at = value.indexOf('=')
  return { header: { [value.slice(0, at).trim()]: value.slice(at + 1).trim() } }
}

function Found({ caller }: { caller: Caller }) {
  const [usage, setUsage] = useState<CallerUsage>()
  const [said, setSaid] = useState('')
  const sure = useSure()
  const refresh = async () => {
    try {
      setUsage(await ask<CallerUsage>('/admin/usage', { caller }))
    } catch (error) {
      setUsage(undefined)
      setSaid((error as Problem).message)
    }
  }
  useEffect(() => {
    setSaid('')
    refresh()
    const timer = setInterval(refresh, 3_000)
    return () => clearInterval(timer)
  }, [caller])

  const reset = async () => {
    try {
      const { keys } = await ask<Forgotten>('/admin/reset', { caller })
      setSaid(`Forgotten: what ${count(keys.length)} ${keys.length === 1 ? 'policy' : 'policies'} had counted.`)
    } catch (error) {
      setSaid((error as Problem).message)
    }
    await refresh()
  }
  return (
    <section aria-labelledby="found">
      <h2 id="found">What it has used</h2>
      <p role="status">{said}</p>
      {usage && <Tiers tiers={usage.tiers} />}
      {usage?.leftOut.map(({ policy, why }) => (
        <p key={policy} class="quiet">
          {policy}: not asked, {why}
        </p>
      ))}
      {usage && (
        <div class="buttons">
          <button type="button" onClick={() => sure.ask('Forget what this caller has used?', reset)}>
            Reset
          </button>
        </div>
      )}
      {sure.element}
    </section>
  )
}
