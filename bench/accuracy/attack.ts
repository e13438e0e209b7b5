/** Sends requests to a limiter as scheduled, and finds out when each was admitted. */
import { Agent, request } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import type { RedisClient } from '../../test/support/redis-client.ts'
import type { Admission } from '../../test/support/windows.ts'
import type { TryTake } from '../peers.ts'
import { readMonotonicMs } from '../services.ts'
import type { Schedule } from './traffic.ts'

/** Sends one request, the nth. */
export type Send = (n: number) => Promise<Outcome>

interface Outcome {
  readonly isAdmitted: boolean
  /** If it was admitted, it was by then. */
  readonly latestMs: number
}

/** When each request was admitted, by its number. */
export type Admissions = ReadonlyMap<number, Admission>

/** Sends requests from the beginning of a window that is aligned to the clock. */
export async function attack(schedule: Schedule, windowMs: number, send: Send): Promise<Admissions> {
  // The machine gets enough time to come to rest.
  const startMs = Math.ceil((Date.now() + 100) / windowMs) * windowMs
  const shiftMs = readMonotonicMs() - Date.now()
  const admissions = new Map<number, Admission>()
  const all: Promise<void>[] = []
  for (const [n, offsetMs] of schedule.entries()) {
    const waitMs = startMs + offsetMs + shiftMs - readMonotonicMs()
    if (waitMs > 1) await setTimeout(waitMs)
    const ms = readMonotonicMs()
    const sent = send(n).then(({ isAdmitted, latestMs }) => {
      if (isAdmitted) admissions.set(n, { ms, latestMs, cost: 1 })
    })
    all.push(sent)
  }
  await Promise.all(all)
  return admissions
}

const agent = new Agent({ keepAlive: true, maxSockets: 128 })

/**
 * Sends through gateways in turns. An admission has happened by the time that its answer is here; the upstream knows more
 * precisely.
 */
export function toGateways(urls: readonly string[], caller: string): Send {
  return async (n) => {
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    const headers = { authorization: `Bearer ${caller}` }
    const outgoing = request(`${urls[n % urls.length]}/record/${caller}-${n}`, { agent, headers }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0))
    })
    outgoing.once('error', reject).end()
    const status = await promise
    if (status !== 200 && status !== 429) throw new Error(`a gateway answered ${status}`)
    return { isAdmitted: status === 200, latestMs: readMonotonicMs() }
  }
}

/** Calls a library in this process. */
export function toLibrary(tryTake: TryTake, caller: string): Send {
  return async () => ({ isAdmitted: await tryTake(caller), latestMs: readMonotonicMs() })
}

/** Moves the latest moments of `toGateways()` to when the requests reached the upstream. */
export function withArrivals(
  admissions: Admissions,
  caller: string,
  arrivals: ReadonlyMap<string, number>,
): Admissions {
  const closer = [...admissions].map(([n, { ms }]) => {
    const latestMs = arrivals.get(`${caller}-${n}`)
    if (latestMs === undefined) throw new Error('an admitted request has not reached the upstream')
    return [n, { ms, latestMs, cost: 1 }] as const
  })
  return new Map(closer)
}

export interface RedisLog {
  /** Lists admissions of keys with this prefix so far, by Redis's own clock. */
  list(prefix: string): Admission[]
  stop(): void
}

/** Watches Redis for entries of streams: in plain sliding windows, each is an admission, and its ID says when. */
export async function watchRedis(redis: RedisClient): Promise<RedisLog> {
  const entries: (Admission & { key: string })[] = []
  const watcher = await redis.duplicate().connect()
  await watcher.monitor((line) => {
    const [, key, ms] = / lua\] "XADD" "([^"]+)" .*"(\d+)-\d+" "\d+" "1"$/.exec(String(line)) ?? []
    if (key && ms) entries.push({ key, ms: Number(ms), cost: 1 })
  })
  return {
    list: (prefix) => entries.filter(({ key }) => key.startsWith(`${prefix}:`)),
    stop: () => watcher.destroy(),
  }
}
