import type { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { runInside } from '../../command/run-command.ts'
import { PLANTED } from '../../setup/secret-watch.ts'
import type { Bundle } from '../../support/build-bundle.ts'
import { send } from '../../support/http-client.ts'
import { startSite } from '../../support/site.ts'
import { sendSteadily } from '../kit/traffic.ts'

export interface SpreadOptions {
  readonly bundle: Bundle
  /** Of presence. */
  readonly points: number
  /** Requests, all points together. */
  readonly ratePerS: number
  readonly refreshMs: number
}

export interface Spread {
  /** Requests a second that were sent, and answered. */
  readonly reached: number
  readonly requests: number
  /** How long the command ran. */
  readonly commandMs: number
  /** For each point of presence, milliseconds from the command's start to the last request that it let in; infinity: it never stopped. */
  readonly activeAfterMs: readonly number[]
  /** Requests of the blocked caller that were let in while Redis was dead. */
  readonly letInWithoutRedis: number
  /** Its requests that were refused then: the rules stayed. */
  readonly refusedWithoutRedis: number
  /** Statuses that nobody should have got, and connections that failed, by how often. */
  readonly errors: ReadonlyMap<string, number>
}

const BLOCKED = `${PLANTED}-blocked`
/** One request of so many is the blocked caller's. */
const BLOCKED_SHARE = 5
const WARM_UP_MS = 1_000
/** Refreshes after which a block that is not in force is not waited for any more: a busy machine may be late. */
const PATIENCE_REFRESHES = 10
const MAX_IN_FLIGHT = 32

interface Seen {
  readonly at: number
  readonly isBlocked: boolean
  readonly sentMs: number
  readonly doneMs: number
  readonly outcome: string
}

/** Blocks a caller by the command while all points of presence are busy, then ends Redis. */
export async function run({ bundle, points, ratePerS, refreshMs }: SpreadOptions): Promise<Spread> {
  const variables = { KEY_PREFIX: 'spread', RATE_LIMITS: '100000/1m', RULES: 'on', RULES_REFRESH_MS: String(refreshMs) }
  const site = await startSite({ bundle, points, variables: { ...variables, ON_STORE_ERROR: 'local' } })
  const { urls, front } = site
  try {
    const traffic = sendSteadily({ ratePerS, maxInFlight: MAX_IN_FLIGHT }, (index, agent) =>
      sendOne(urls, index, agent),
    )
    const { seen } = traffic
    const startedMs = performance.now()
    await sleep(WARM_UP_MS)

    const env = { ...variables, UPSTASH_REDIS_REST_URL: front.url, UPSTASH_REDIS_REST_TOKEN: front.token }
    const beganMs = performance.now()
    const { code, stderr } = await runInside(['block', BLOCKED, '--reason', 'a test'], { env })
    if (code !== 0) throw new Error(`sluice block: ${stderr}`)
    const pushedMs = performance.now()
    const isKeptOut = () => urls.every((_, at) => wasLastRefused(seen, at, pushedMs))
    for (let waited = 0; waited < PATIENCE_REFRESHES && !isKeptOut(); waited++) await sleep(refreshMs)
    const quietMs = performance.now()

    await site.redis.stop()
    const endedMs = performance.now()
    await sleep(3 * refreshMs)
    await traffic.stop()
    const reached = (seen.length / (performance.now() - startedMs)) * 1_000

    const blocked = seen.filter(({ isBlocked }) => isBlocked)
    const without = blocked.filter(({ sentMs }) => sentMs > endedMs)
    const lastLetIn = (at: number) =>
      Math.max(
        0,
        ...blocked.filter((one) => one.at === at && one.outcome === '200').map(({ sentMs }) => sentMs - beganMs),
      )
    return {
      ...{ reached, requests: seen.length, commandMs: pushedMs - beganMs },
      activeAfterMs: urls.map((_, at) =>
        lastLetIn(at) < quietMs - beganMs ? lastLetIn(at) : Number.POSITIVE_INFINITY,
      ),
      letInWithoutRedis: without.filter(({ outcome }) => outcome === '200').length,
      refusedWithoutRedis: without.filter(({ outcome }) => outcome === '403').length,
      errors: countErrors(seen, beganMs),
    }
  } finally {
    await site.stop()
  }
}

/** Whether the last request of the blocked caller was refused there. */
function wasLastRefused(seen: readonly Seen[], at: number, sinceMs: number): boolean {
  const last = seen.findLast((one) => one.at === at && one.isBlocked && one.sentMs > sinceMs)
  return last?.outcome === '403'
}

/** A block that nobody had set yet, or of somebody else, is an error, too. */
function countErrors(seen: readonly Seen[], beganMs: number): Map<string, number> {
  const errors = new Map<string, number>()
  for (const { outcome, isBlocked, doneMs } of seen) {
    const isMeant = outcome === '200' || (outcome === '403' && isBlocked && doneMs > beganMs)
    if (!isMeant) errors.set(outcome, (errors.get(outcome) ?? 0) + 1)
  }
  return errors
}

/** Sends a request of the blocked caller, or of one of a hundred others, to each point of presence in turn. */
async function sendOne(urls: readonly URL[], index: number, agent: Agent): Promise<Seen> {
  const [at, isBlocked] = [index % urls.length, Math.floor(index / urls.length) % BLOCKED_SHARE === 0]
  const sentMs = performance.now()
  const headers = { Authorization: `Bearer ${isBlocked ? BLOCKED : `caller-${index % 100}`}` }
  const outcome = await send(urls[at] as URL, { path: '/things', headers, agent }).then(
    ({ status }) => String(status),
    ({ code, name }: NodeJS.ErrnoException) => code ?? name,
  )
  return { at, isBlocked, sentMs, doneMs: performance.now(), outcome }
}
