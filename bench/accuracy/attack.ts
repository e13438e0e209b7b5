import { Agent, request } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import type { RedisClient } from '../../test/support/redis-client.ts'
import type { Admission } from '../../test/support/windows.ts'
import type { TryTake as Ask } from '../peers.ts'
import { monotonicMs } from '../services.ts'
import type { Schedule } from './traffic.ts'

/** Sends one request, the nth. */
export type Send = (n: number) => Promise<Outcome>

interface Outcome {
  readonly isAdmitted: boolean
  /** By then it had been admitted, if it was. */
  readonly latestMs: number
}

export interface Attacked {
  /** In the order of the schedule. */
  readonly sentMs: readonly number[]
  /** By number of the request. */
  readonly admissions: ReadonlyMap<number, Admission>
}

/** Sends requests as scheduled, from the beginning of a window that is aligned to the clock. */
export async function attack(schedule: Schedule, windowMs: number, send: Send): Promise<Attacked> {
  // Enough time to come to rest.
  const startMs = Math.ceil((Date.now() + 100) / windowMs) * windowMs
  const shiftMs = monotonicMs() - Date.now()
  const sentMs: number[] = []
  const admissions = new Map<number, Admission>()
  const all: Promise<void>[] = []
  for (const [n, offsetMs] of schedule.entries()) {
    const waitMs = startMs + offsetMs + shiftMs - monotonicMs()
    if (waitMs > 1) await setTimeout(waitMs)
    const ms = monotonicMs()
    sentMs.push(ms)
    const sent = send(n).then(({ isAdmitted, latestMs }) => {
      if (isAdmitted) admissions.set(n, { ms, latestMs, cost: 1 })
    })
    all.push(sent)
  }
  await Promise.all(all)
  return { sentMs, admissions }
}

const agent = new Agent({ keepAlive: true, maxSockets: 128 })

/**
 * Through gateways in turns. An admission has happened by the time that its answer is here; the upstream knows more
 * precisely.
 */
export function throughGateways(urls: readonly string[], caller: string): Send {
  return async (n) => {
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    const headers = { authorization: `Bearer ${caller}` }
    const outgoing = request(`${urls[n % urls.length]}/record/${caller}-${n}`, { agent, headers }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0))
    })
    outgoing.once('error', reject).end()
    const status = await promise
    if (status !== 200 && status !== 429) throw new Error(`a gateway answered ${status}`)
    return { isAdmitted: status === 200, latestMs: monotonicMs() }
  }
}

/** By a library in this process. */
export function byLibrary(ask: Ask, caller: string): Send {
  return async () => ({ isAdmitted: await ask(caller), latestMs: monotonicMs() })
}

/** Moves the latest moments of `throughGateways()` to when the requests reached the upstream. */
export function atUpstream(
  { sentMs, admissions }: Attacked,
  caller: string,
  arrivals: ReadonlyMap<string, number>,
): Attacked {
  const closer = [...admissions].map(([n, { ms }]) => {
    const latestMs = arrivals.get(`${caller}-${n}`)
    if (latestMs === undefined) throw new Error('an admitted request has not reached the upstream')
    return [n, { ms, latestMs, cost: 1 }] as const
  })
  return { sentMs, admissions: new Map(closer) }
}

export interface RedisLog {
  /** Admissions of keys with this prefix so far, by Redis's own clock. */
  admissions(prefix: string): Admission[]
  stop(): void
}

/** Watches Redis for entries of streams: in plain sliding windows, each is an admission, and its ID tells when. */
export async function watchRedis(redis: RedisClient): Promise<RedisLog> {
  const entries: (Admission & { key: string })[] = []
  const watcher = await redis.duplicate().connect()
  await watcher.monitor((line) => {
    const [, key, ms] = / lua\] "XADD" "([^"]+)" .*"(\d+)-\d+" "\d+" "1"$/.exec(String(line)) ?? []
    if (key && ms) entries.push({ key, ms: Number(ms), cost: 1 })
  })
  return {
    admissions: (prefix) => entries.filter(({ key }) => key.startsWith(`${prefix}:`)),
    stop: () => watcher.destroy(),
  }
}
