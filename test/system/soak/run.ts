/** Mixed traffic with faults, for as long as one likes: what is held stays level, and what is counted is exact. */
import type { Agent } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { createDigest } from '../../../src/core/runtime/digest.ts'
import { FAULTS } from '../../../tools/faults.ts'
import type { Bundle } from '../../support/build-bundle.ts'
import { DECIDE_TOKEN } from '../../support/decisions.ts'
import { openRequest, responseTo, type Sent } from '../../support/http-client.ts'
import { type Admission, checkWindows } from '../../support/windows.ts'
import { readAdmissions } from '../kit/streams.ts'
import { sendSteadily } from '../kit/traffic.ts'
import { IDENTITY_SECRET, KEY_PREFIX, LIMIT, type Site, startSite } from './site.ts'

export interface SoakOptions {
  readonly bundle: Bundle
  readonly seconds: number
  readonly ratePerS: number
  onSample?(held: Readonly<Record<string, number>>): void
}

export interface Soaked {
  readonly requests: number
  readonly identities: number
  readonly admitted: number
  readonly samples: readonly Readonly<Record<string, number>>[]
  /** What is wrong with counts, a line each. */
  readonly wrong: readonly string[]
}

const STAYING = 20
const FAULT_EVERY_MS = 20_000
const FAULT_MS = 2_000
const SAMPLE_EVERY_MS = 10_000
/** Sooner than any entry leaves its stream. */
const RECORD_EVERY_MS = 1_000
const SLOT_ATTEMPTS = 60
/** What collections of garbage leave behind varies. */
const MAX_GROWTH = 0.15
const MAX_MORE = 10

/** One caller of the policy `hot`, as it was answered. */
interface Account {
  /** Admitted by the store. */
  shared: number
  /** Requests of which the store may know more than the caller. */
  doubtful: number
  readonly entries: Map<string, Admission>
}

export async function soak({ bundle, seconds, ratePerS, onSample }: SoakOptions): Promise<Soaked> {
  const site = await startSite(bundle)
  const ending = new AbortController()
  const { signal } = ending
  try {
    const accounts = new Map<string, Account>()
    const keys = createKeys()
    for (const key of keys) accounts.set(key, { shared: 0, doubtful: 0, entries: new Map() })
    const counts = { requests: 0, identities: 0, admitted: 0 }
    const traffic = sendSteadily({ ratePerS, maxInFlight: 100 }, async (index, agent) => {
      counts.requests++
      const isHot = index % 5 === 0
      const caller = isHot ? `staying-${(index / 5) % STAYING}` : crypto.randomUUID()
      if (!isHot) counts.identities++
      const { status, isShared } = await request(site, { index, caller, isHot, agent })
      if (status === 200) counts.admitted++
      const account = isHot ? accounts.get(keys[(index / 5) % STAYING] as string) : undefined
      if (account && status === 200 && isShared) account.shared++
      else if (account && status !== 429) account.doubtful++
    })
    const samples: Readonly<Record<string, number>>[] = []
    const repeated = [
      repeat(signal, FAULT_EVERY_MS, (times) => breakOne(site, times)),
      repeat(signal, RECORD_EVERY_MS, () => recordEntries(site, accounts)),
      repeat(signal, SAMPLE_EVERY_MS, async () => {
        const held = await site.measure()
        samples.push(held)
        onSample?.(held)
      }),
    ]
    await wait(seconds * 1_000)
    ending.abort()
    await Promise.all(repeated)
    await traffic.stop()
    await recordEntries(site, accounts)
    return { ...counts, samples, wrong: [...listWrongCounts(accounts), ...(await waitUntilNoSlots(site))] }
  } finally {
    ending.abort()
    await site.stop()
  }
}

async function repeat(signal: AbortSignal, everyMs: number, work: (times: number) => Promise<void>): Promise<void> {
  for (let times = 0; ; times++) {
    await wait(everyMs, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    await work(times)
  }
}

/** Keys of the callers that stay, in their order. */
function createKeys(): readonly string[] {
  const digest = createDigest(IDENTITY_SECRET)
  return Array.from({ length: STAYING }, (_, at) => `${KEY_PREFIX}:hot:w:{${digest(['token', `staying-${at}`])}}`)
}

interface Call {
  readonly index: number
  readonly caller: string
  readonly isHot: boolean
  readonly agent: Agent
}

/** What an API may do, and clients that go away. */
const UPSTREAM_PATHS = ['/up/slow', '/up/reset', '/up/reset-body', '/up/hang', '/up/endless', '/up/ok']
const OBJECT_CALLERS = 200

interface Answer {
  /** 0 if none came. */
  readonly status: number
  readonly isShared: boolean
}

function request({ gateway, objects, serving }: Site, { index, caller, isHot, agent }: Call): Promise<Answer> {
  const headers = { authorization: `Bearer ${caller}`, 'cf-connecting-ip': `198.51.100.${index % 250}` }
  if (isHot) return call(gateway.url, { path: '/hot', headers, agent })
  const turn = Math.floor(index / 10)
  switch (index % 10) {
    case 1: {
      const path = UPSTREAM_PATHS[turn % UPSTREAM_PATHS.length] as string
      return call(gateway.url, { path, headers, agent }, path === '/up/endless' ? 50 : undefined)
    }
    case 2: {
      const authorization = `Bearer fixed-${turn % OBJECT_CALLERS}`
      return call(objects.url, { path: '/fresh', headers: { ...headers, authorization }, agent })
    }
    case 3: {
      const body = JSON.stringify({ method: 'GET', path: '/fresh', headers: { authorization: headers.authorization } })
      const own = { authorization: `Bearer ${DECIDE_TOKEN}`, 'content-type': 'application/json' }
      return call(serving.url, { method: 'POST', path: '/_sluice/decide', headers: own, body, agent })
    }
    default:
      return call(gateway.url, { path: '/fresh', headers, agent })
  }
}

/** @param leaveAfterMs when the client goes away, if it does */
async function call(url: URL, { body, ...sent }: Sent, leaveAfterMs?: number): Promise<Answer> {
  try {
    const client = openRequest(url, sent)
    client.end(body)
    if (leaveAfterMs !== undefined) setTimeout(() => client.destroy(), leaveAfterMs)
    const response = await responseTo(client)
    const { statusCode: status = 0, headers } = response
    await text(response).catch(() => {})
    return { status, isShared: headers['sluice-degraded'] === undefined }
  } catch {
    return { status: 0, isShared: false }
  }
}

const STORE_FAULTS = ['hang, command not run', 'hang, command run', 'status 500', 'latency with jitter'] as const

/** Breaks the store for a while, each time in another way. */
async function breakOne({ front, redis }: Site, times: number): Promise<void> {
  const name = STORE_FAULTS[times % (STORE_FAULTS.length + 1)]
  if (name) front.inject(FAULTS[name])
  else redis.freeze()
  await wait(FAULT_MS)
  front.inject(undefined)
  redis.thaw()
}

async function recordEntries({ redis }: Site, accounts: ReadonlyMap<string, Account>): Promise<void> {
  for (const [key, { entries }] of accounts) {
    const admissions = await readAdmissions((command) => redis.client.sendCommand([...command]), key)
    for (const admission of admissions) entries.set(admission.id, admission)
  }
}

function listWrongCounts(accounts: ReadonlyMap<string, Account>): string[] {
  return [...accounts].flatMap(([key, { shared, doubtful, entries }]) => {
    const admissions = [...entries.values()]
    const charged = admissions.reduce((sum, { cost }) => sum + cost, 0)
    const { over } = checkWindows(LIMIT, admissions)
    const said = `${key}: ${charged} charged, ${shared} admitted, ${doubtful} in doubt`
    return [
      ...(over > 0 ? [`${key}: ${over} windows above the limit`] : []),
      ...(charged < shared || charged > shared + doubtful ? [said] : []),
      ...(shared === 0 ? [`${said}: nothing was tested`] : []),
    ]
  })
}

/** Slots come back once their requests have ended, whatever became of those. */
async function waitUntilNoSlots({ redis }: Site): Promise<string[]> {
  for (let attempt = 0; ; attempt++) {
    const keys = await redis.client.keys(`${KEY_PREFIX}:slots:c:*`)
    const taken = await Promise.all(keys.map((key) => redis.client.zCount(key, '(0', '+inf')))
    const left = taken.reduce((sum, count) => sum + count, 0)
    if (left === 0) return []
    if (attempt === SLOT_ATTEMPTS) return [`${left} slots are still taken`]
    await wait(1_000)
  }
}

/**
 * Judges what was held over time: what the last third mostly held is no more than what the middle third did, and some.
 * While the store is broken, more is held.
 * @returns what grew, a line each
 */
export function listGrowths(samples: Soaked['samples']): string[] {
  const third = Math.floor(samples.length / 3)
  return Object.keys(samples[0] ?? {}).flatMap((name) => {
    const middle = (from: number, to: number) => {
      const held = samples.slice(from, to).map((sample) => sample[name] as number)
      return held.toSorted((a, b) => a - b)[held.length >> 1] ?? 0
    }
    const [before, after] = [middle(third, 2 * third), middle(2 * third, samples.length)]
    const isLevel = after <= before * (1 + MAX_GROWTH) + MAX_MORE
    return isLevel ? [] : [`${name}: ${before.toFixed(0)} in the second third, ${after.toFixed(0)} in the last`]
  })
}
