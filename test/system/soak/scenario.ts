/** Mixed traffic with faults, for as long as one likes: what is held stays level, and what is counted is exact. */
import type { Agent } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { createDigest } from '../../../src/core/runtime/digest.ts'
import { FAULTS } from '../../../tools/faults.ts'
import { DECIDE_TOKEN } from '../../support/decisions.ts'
import { openRequest, responseTo, type Sent } from '../../support/http-client.ts'
import { listTakenSlots } from '../faults/charges.ts'
import { defineScenario, type Options, type Run, repeat } from '../kit/scenario.ts'
import { readUnitsAdmitted } from '../kit/streams.ts'
import { formatTable } from '../kit/table.ts'
import { sendSteadily } from '../kit/traffic.ts'
import { Accounts, type Answered } from './accounts.ts'
import { listGrowths, type Sample } from './growth.ts'
import { IDENTITY_SECRET, KEY_PREFIX, LIMIT, LONGEST_WINDOW_MS, type Site, startSite } from './site.ts'

interface SoakOptions extends Options {
  readonly hours: number
  readonly rate: number
  /** `judged` in a run that is long enough. */
  readonly growth: string
}

/** Units that the streams of a caller say were ever charged. */
interface Charged {
  readonly units: number
  /** Of streams that have expired in rests. */
  readonly before: number
  /** It has expired meanwhile, and begun anew: its caller was kept from its limit. */
  readonly isBroken: boolean
}

interface Soaked {
  readonly requests: number
  readonly counts: Accounts['counts']
  readonly samples: readonly Sample[]
  readonly wrong: readonly string[]
}

const FAULT_EVERY_MS = 20_000
const FAULT_MS = 2_000
const CHECK_EVERY_MS = 10_000
const REST_EVERY_MS = 45_000
/** Until then, streams of all callers have expired, and connections that nobody uses are closed. */
const REST_MS = LONGEST_WINDOW_MS + 3_000
const SHOWN_EVERY = 5
/** Sooner than any stream expires. */
const RECORD_EVERY_MS = 1_000
const SLOT_TIMES = { withinMs: 60_000, everyMs: 1_000 }
/** Of each caller that presses: with fewer, nothing was tested. */
const MIN_SEEN = 10
/** What Cloudflare gives an isolate. */
const MAX_HEAP_MIB = 128

export const SOAK = defineScenario({
  long: [{ hours: 0.17, rate: 300, growth: 'judged' }],
  maxMinutes: 24 * 60,
  start: (_, { bundle }) => startSite(bundle),
  load: soak,
  async read(site, soaked) {
    // Slots come back once their requests have ended, whatever became of those.
    const taken = await listTakenSlots({ ...site, keyPrefix: KEY_PREFIX }, 'slots', SLOT_TIMES)
    return { ...soaked, wrong: [...soaked.wrong, ...taken] }
  },
  judge({ counts, samples, wrong }, { growth: which }) {
    const growth = which === 'judged' ? listGrowths(samples) : { wrong: [], missing: [] }
    const heap = Math.max(0, ...samples.map(({ held }) => held['gateway: heap, MiB'] ?? 0))
    const idle = counts.filter(([, { admitted, refused }]) => Math.min(admitted, refused) < MIN_SEEN)
    return {
      wrong: [...wrong, ...growth.wrong, ...(heap < MAX_HEAP_MIB ? [] : [`a heap of ${heap} MiB`])],
      missing: [
        ...growth.missing,
        ...idle.map(
          ([name, { admitted, refused }]) => `${name}: ${admitted} admitted, ${refused} refused: hardly pressed`,
        ),
      ],
    }
  },
  format({ requests, counts, samples }) {
    const rows = counts.map(([name, { admitted, refused, doubtful }]) => {
      return [name, admitted, `admitted, ${refused} refused, ${doubtful} in doubt`] as const
    })
    return formatTable([['requests', requests], ...rows, ...Object.entries(samples.at(-1)?.held ?? {})])
  },
})

/** Keys under which Redis counts those who press, by their names. */
function listKeys(): ReadonlyMap<string, string> {
  const digest = createDigest(IDENTITY_SECRET)
  const prefixes = { gateway: KEY_PREFIX, serve: `${KEY_PREFIX}-serve` }
  return new Map(
    Object.entries(prefixes).flatMap(([part, prefix]) =>
      PRESSING.map((caller) => [`${part}: ${caller}`, `${prefix}:hot:w:{${digest(['token', caller])}}`]),
    ),
  )
}

const PRESSING = ['pressing-0', 'pressing-1'] as const

/**
 * Sends until the time is up, or something is wrong. What is held is read in rests: under load, it would tell how much is
 * under way, on a machine that becomes slower or faster.
 */
async function soak(site: Site, { hours, rate }: SoakOptions, run: Run): Promise<Soaked> {
  const { progress } = run
  const ending = new AbortController()
  const signal = AbortSignal.any([ending.signal, run.signal])
  const timer = setTimeout(() => ending.abort(), hours * 3_600_000)
  const accounts = new Accounts(LIMIT)
  const keys = listKeys()
  const charged = new Map<string, Charged>()
  const record = async (isBeforeRest: boolean) => {
    for (const [name, key] of keys) {
      const units = await readUnitsAdmitted((command) => site.redis.client.sendCommand([...command]), key)
      const known = charged.get(name) ?? { units: 0, before: 0, isBroken: false }
      const [isBroken, before] = [known.isBroken || units < known.units, known.before]
      charged.set(name, isBeforeRest ? { units: 0, before: before + units, isBroken } : { units, before, isBroken })
    }
  }
  const samples: Sample[] = []
  let wrong: string[] = []
  let library: Awaited<ReturnType<Site['library']['ask']>> | undefined
  const check = async (isOver: boolean) => {
    library = await site.library.ask()
    wrong = [...accounts.check(Date.now(), isOver), ...library.wrong]
    if (wrong.length > 0) ending.abort()
  }
  let [sent, breaks] = [0, 0]
  const press = async () => {
    const phase = new AbortController()
    const pressing = AbortSignal.any([signal, phase.signal])
    const rest = setTimeout(() => phase.abort(), REST_EVERY_MS)
    const traffic = sendSteadily({ ratePerS: rate, maxInFlight: 100, progress }, async (_, agent) => {
      const { part, caller, ...request } = chooseRequest(site, sent++, agent)
      const sentMs = Date.now()
      const answered = await call(request)
      if (part !== undefined) accounts.of(`${part}: ${caller}`).add(answered, sentMs, Date.now())
    })
    await Promise.all([
      repeat(pressing, FAULT_EVERY_MS, () => breakOne(site, breaks++)),
      repeat(pressing, RECORD_EVERY_MS, () => record(false)),
      repeat(pressing, CHECK_EVERY_MS, () => check(false)),
    ])
    clearTimeout(rest)
    await traffic.stop()
    await record(true)
  }
  while (!signal.aborted) {
    await press()
    await wait(REST_MS, undefined, { signal }).catch(() => {})
    if (signal.aborted) break
    const held = await site.measure()
    samples.push({ requests: progress.answered + (library?.takes ?? 0), held })
    if (samples.length % SHOWN_EVERY === 0) console.log(formatTable(Object.entries(held)))
  }
  clearTimeout(timer)
  await check(true)
  const counts = [...accounts.counts, ...(library?.counts ?? [])]
  return { requests: progress.answered, counts, samples, wrong: [...wrong, ...listWrongCharges(accounts, charged)] }
}

interface Request extends Sent {
  readonly url: URL
  /** What is asked, of one that presses. */
  readonly part?: string
  readonly caller: string
  readonly agent: Agent
  /** When the client goes away, if it does. */
  readonly leaveAfterMs?: number
}

/** What an API may do, and clients that go away. */
const UPSTREAM_PATHS = ['/up/slow', '/up/reset', '/up/reset-body', '/up/hang', '/up/endless', '/up/ok']
const OBJECT_CALLERS = 200
const DECIDE_PATH = '/_sluice/decide'

/** Of twenty requests, six are of those that press, and the others of ever new callers, or of many. */
function chooseRequest({ gateway, objects, serving }: Site, index: number, agent: Agent): Request {
  const [turn, place] = [Math.floor(index / 20), index % 20]
  const isPressing = place < 6
  const caller = isPressing ? (PRESSING[place % 2] as string) : crypto.randomUUID()
  const headers = { authorization: `Bearer ${caller}`, 'cf-connecting-ip': `198.51.100.${index % 250}` }
  const common = { caller, agent, headers }
  const ask = (policy: string) => ({
    ...{ url: serving.url, method: 'POST', path: DECIDE_PATH, agent, caller },
    headers: { authorization: `Bearer ${DECIDE_TOKEN}`, 'content-type': 'application/json' },
    body: JSON.stringify({ policy, identity: ['token', caller] }),
  })
  if (place < 2) return { ...common, part: 'gateway', url: gateway.url, path: '/hot' }
  if (place < 4) return { ...common, part: 'objects', url: objects.url, path: '/hot' }
  if (place < 6) return { ...ask('hot'), part: 'serve' }
  if (place < 8) return ask('fresh')
  if (place < 10) {
    // Each key is an object, with a file of its own here.
    const authorization = `Bearer fixed-${(2 * turn + place) % OBJECT_CALLERS}`
    return { ...common, url: objects.url, path: '/fresh', headers: { ...headers, authorization } }
  }
  if (place > 11) return { ...common, url: gateway.url, path: '/fresh' }
  const path = UPSTREAM_PATHS[(2 * turn + place) % UPSTREAM_PATHS.length] as string
  return { ...common, url: gateway.url, path, ...(path === '/up/endless' && { leaveAfterMs: 50 }) }
}

async function call({ url, body, leaveAfterMs, ...sent }: Omit<Request, 'part' | 'caller'>): Promise<Answered> {
  try {
    const client = openRequest(url, sent)
    client.end(body)
    if (leaveAfterMs !== undefined) setTimeout(() => client.destroy(), leaveAfterMs)
    const response = await responseTo(client)
    const { statusCode, headers } = response
    const answer = await text(response).catch(() => '')
    if (sent.path === DECIDE_PATH) {
      const { granted, degraded } = JSON.parse(answer) as { granted?: boolean; degraded?: string }
      return degraded !== undefined || granted === undefined ? 'doubtful' : granted ? 'admitted' : 'refused'
    }
    const isShared = headers['sluice-degraded'] === undefined
    return isShared && statusCode === 200 ? 'admitted' : isShared && statusCode === 429 ? 'refused' : 'doubtful'
  } catch {
    return 'doubtful'
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

/** What Redis has charged beside what callers were answered: each admission once, and what is in doubt once at most. */
function listWrongCharges(accounts: Accounts, charged: ReadonlyMap<string, Charged>): string[] {
  return [...charged].flatMap(([name, { before: units, isBroken }]) => {
    const { admitted, doubtful } = accounts.of(name).counts
    if (isBroken || (units >= admitted && units <= admitted + doubtful)) return []
    return [`${name}: ${units} charged, ${admitted} admitted, ${doubtful} in doubt`]
  })
}
