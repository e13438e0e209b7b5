/** A block set by the command while all points of presence are busy is in force everywhere, also when Redis has died. */
import type { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { runInside } from '../../command/run-command.ts'
import { PLANTED } from '../../setup/secret-watch.ts'
import { send } from '../../support/http-client.ts'
import { startSite } from '../../support/site.ts'
import { defineScenario } from '../kit/scenario.ts'
import { formatTable } from '../kit/table.ts'
import { sendSteadily } from '../kit/traffic.ts'

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

const toVariables = (refreshMs: number) => {
  return { KEY_PREFIX: 'spread', RATE_LIMITS: '100000/1m', RULES: 'on', RULES_REFRESH_MS: String(refreshMs) }
}

export const SPREAD = defineScenario({
  long: [{ points: 4, rate: 500, refreshMs: 5_000, judgesTime: 'yes' }],
  maxMinutes: 5,
  start: ({ points, refreshMs }, { bundle }) =>
    startSite({ bundle, points, variables: { ...toVariables(refreshMs), ON_STORE_ERROR: 'local' } }),

  async load({ urls, front, redis }, { rate, refreshMs }, { progress }) {
    const load = { ratePerS: rate, maxInFlight: MAX_IN_FLIGHT, progress }
    const traffic = sendSteadily(load, (index, agent) => sendOne(urls, index, agent))
    const { seen } = traffic
    await sleep(WARM_UP_MS)

    const env = { ...toVariables(refreshMs), UPSTASH_REDIS_REST_URL: front.url, UPSTASH_REDIS_REST_TOKEN: front.token }
    const beganMs = performance.now()
    const { code, stderr } = await runInside(['block', BLOCKED, '--reason', 'a test'], { env })
    if (code !== 0) throw new Error(`sluice block: ${stderr}`)
    const pushedMs = performance.now()
    const isKeptOut = () => urls.every((_, at) => wasLastRefused(seen, at, pushedMs))
    for (let waited = 0; waited < PATIENCE_REFRESHES && !isKeptOut(); waited++) await sleep(refreshMs)
    const quietMs = performance.now()

    await redis.stop()
    const endedMs = performance.now()
    await sleep(3 * refreshMs)
    return { seen: await traffic.stop(), beganMs, pushedMs, quietMs, endedMs }
  },

  read({ urls }, { seen, beganMs, pushedMs, quietMs, endedMs }) {
    const blocked = seen.filter(({ isBlocked }) => isBlocked)
    const without = blocked.filter(({ sentMs }) => sentMs > endedMs)
    const isLetIn = ({ outcome }: Seen) => outcome === '200'
    return {
      requests: seen.length,
      commandMs: pushedMs - beganMs,
      /** For each point of presence, from the command's start to the last request that it let in; infinity: it never stopped. */
      activeAfterMs: urls.map((_, at) => {
        const own = blocked.filter((one) => one.at === at && isLetIn(one))
        const lastMs = Math.max(0, ...own.map(({ sentMs }) => sentMs - beganMs))
        return lastMs < quietMs - beganMs ? lastMs : Number.POSITIVE_INFINITY
      }),
      letInWithoutRedis: without.filter(isLetIn).length,
      refusedWithoutRedis: without.filter(({ outcome }) => outcome === '403').length,
      errors: countErrors(seen, beganMs),
    }
  },

  judge({ activeAfterMs, commandMs, errors, letInWithoutRedis, refusedWithoutRedis }, { refreshMs, judgesTime }) {
    const slowest = Math.max(...activeAfterMs)
    const isLate = slowest > (judgesTime === 'yes' ? 2 * refreshMs + commandMs : Number.MAX_VALUE)
    return {
      wrong: [
        ...[...errors].map(([outcome, count]) => `errors: ${count} × ${outcome}`),
        ...(isLate ? [`late: in force after ${slowest} ms`] : []),
        ...(letInWithoutRedis > 0
          ? [`the blocked caller was let in ${letInWithoutRedis} times while Redis was dead`]
          : []),
      ],
      missing: refusedWithoutRedis === 0 ? ['the blocked caller sent nothing while Redis was dead'] : [],
    }
  },

  format({ requests, commandMs, activeAfterMs, letInWithoutRedis, refusedWithoutRedis }) {
    return formatTable([
      ['requests', requests],
      ['milliseconds that the command took', commandMs],
      ...activeAfterMs.map((ms, at) => [`in force after, ms: point ${at}`, ms] as const),
      ['refused while Redis was dead', refusedWithoutRedis, `${letInWithoutRedis} let in`],
    ])
  },
})

/** Whether the last request of the blocked caller was refused there. */
function wasLastRefused(seen: readonly Seen[], at: number, sinceMs: number): boolean {
  const last = seen.findLast((one) => one.at === at && one.isBlocked && one.sentMs > sinceMs)
  return last?.outcome === '403'
}

/** A block that nobody had set yet, or of somebody else, is an error, too. */
function countErrors(seen: readonly Seen[], beganMs: number): ReadonlyMap<string, number> {
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
