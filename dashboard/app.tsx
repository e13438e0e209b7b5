/** The page: its session, its views, and what no view may hide. */

import type { ComponentChild } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { OnStoreError } from '../src/core/model/policy.ts'
import { listNames } from '../src/core/runtime/lists.ts'
import type { Policies, Status } from './answers.ts'
import { ask, type Problem } from './api.ts'
import { Plain } from './parts/plain.tsx'
import { usePolled } from './parts/use-polled.ts'
import { CallerView } from './views/caller.tsx'
import { Login } from './views/login.tsx'
import { Now } from './views/now.tsx'
import { RulesView } from './views/rules.tsx'
import { formatSpan, formatStore } from './words.ts'

/** Which view, and what of it, as the address has it: `#caller/<digest>/<policy that has refused it>`. */
interface Place {
  readonly view: keyof typeof VIEWS
  readonly digest: string
  readonly policy: string
}

interface View {
  readonly title: string
  readonly render: (place: Place, status: Status | undefined) => ComponentChild
}

const VIEWS = {
  now: { title: 'Overview', render: (_, status) => <Now status={status} /> },
  caller: {
    title: 'Callers',
    render: ({ digest, policy }) => <CallerView key={`${digest} ${policy}`} digest={digest} refusedBy={policy} />,
  },
  rules: { title: 'Rules', render: () => <RulesView /> },
} satisfies Readonly<Record<string, View>>

function read(hash: string): Place {
  const [name = '', digest = '', policy = ''] = hash.slice(1).split('/').map(decode)
  const view = listNames(VIEWS).find((known) => known === name) ?? 'now'
  return { view, digest, policy }
}

/** Empty for what is no encoding of a text. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return ''
  }
}

export function App() {
  const [session, setSession] = useState<'unknown' | 'none' | 'open'>('unknown')
  const [status, setStatus] = useState<Status>()
  const [trouble, setTrouble] = useState('')
  const [place, setPlace] = useState(read(location.hash))

  useEffect(() => {
    const follow = () => setPlace(read(location.hash))
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])

  // Whether a session is open, only the gateway knows: no script sees its cookie.
  useEffect(() => {
    if (session !== 'unknown') return
    ask<Status>('/admin/status').then(
      (first) => {
        setStatus(first)
        setSession('open')
      },
      (error: Problem) => {
        setTrouble(error.status === 401 ? '' : error.message)
        setSession('none')
      },
    )
  }, [session])

  useEffect(() => {
    if (session !== 'open') return
    const events = new EventSource('/_sluice/admin/live')
    events.onmessage = ({ data }) => {
      setStatus(JSON.parse(data))
      setTrouble('')
    }
    events.onerror = () => {
      setTrouble('Connection lost; reconnecting…')
      // Refused for good, and not only broken off: the session may be over.
      if (events.readyState === EventSource.CLOSED) setSession('unknown')
    }
    return () => events.close()
  }, [session])

  // Whoever has logged in goes on from the top of the view.
  useEffect(() => {
    const heading = session === 'open' ? document.querySelector<HTMLElement>('main h1') : null
    if (document.activeElement === document.body) heading?.focus()
  }, [session])

  if (session === 'unknown') return <p class="quiet">Connecting…</p>
  if (session === 'none') return <Login trouble={trouble} onDone={() => setSession('unknown')} />
  const logOut = async () => {
    await ask('/logout', {}).catch(() => {})
    setStatus(undefined)
    setSession('unknown')
  }
  return (
    <>
      <header class="top">
        <strong class="name">Sluice</strong>
        <nav aria-label="Views">
          {Object.entries(VIEWS).map(([name, { title }]) => (
            <a key={name} href={`#${name}`} aria-current={name === place.view ? 'page' : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <Plain onClick={logOut}>Log out</Plain>
      </header>
      <Alarm status={status} trouble={trouble} />
      <main>{VIEWS[place.view].render(place, status)}</main>
      <footer class="quiet">{status && `Sluice ${status.release}`}</footer>
    </>
  )
}

const POLICIES_EVERY_MS = 10_000

/** What an operator must not miss. */
function Alarm({ status, trouble }: { status: Status | undefined; trouble: string }) {
  const { value: active } = usePolled<Policies>('/admin/policies', POLICIES_EVERY_MS)
  const alarm = trouble || describeTrouble(status, active)
  return (
    <div role="alert" class={alarm ? 'alarm' : ''}>
      {alarm}
    </div>
  )
}

/** Describes how requests are decided under each fallback of `on_store_error`. */
const FALLBACKS = {
  local: 'each isolate counts by itself',
  open: 'requests are admitted without limits',
  closed: 'requests are refused with 503',
} as const satisfies Readonly<Record<OnStoreError, string>>

function describeFallback(active: Policies | undefined): string {
  const policies = active?.policies ?? []
  const parts = listNames(FALLBACKS).flatMap((fallback) => {
    const names = policies.filter(({ onStoreError }) => onStoreError === fallback).map(({ name }) => name)
    if (names.length === 0) return []
    const isAll = names.length === policies.length
    return [`${fallback} decides${isAll ? '' : ` ${names.join(', ')}`}: ${FALLBACKS[fallback]}`]
  })
  return parts.length === 0 ? 'the ON_STORE_ERROR fallback decides' : parts.join('; ')
}

function describeTrouble(status: Status | undefined, active: Policies | undefined): string {
  if (!status) return ''
  const { store, shedLevel } = status
  const kind = formatStore(store)
  const TROUBLES = {
    answers: '',
    unknown: '',
    slow: `${kind} answers in ${formatSpan(store.rttMs ?? 0)}, later than decisions wait (${formatSpan(store.timeoutMs)})`,
    failing: `${kind} keeps failing, the circuit breaker is open`,
    unavailable: `${kind} is unavailable`,
  } as const satisfies Record<typeof store.state, string>
  const trouble = TROUBLES[store.state]
  if (trouble !== '') return `${trouble}; ${describeFallback(active)}.`
  if (active?.active.state === 'lost') {
    return `The rules are gone from the store; version ${active.active.version} is enforced until the gateway restarts. See Rules.`
  }
  if (shedLevel !== null && shedLevel > 0) return 'The upstream is overloaded; lower-priority requests are shed.'
  return ''
}
