import { setTimeout as wait } from 'node:timers/promises'
import { slotsTaken } from './charges.ts'
import { checkLog } from './check-log.ts'
import { checkAnswers, checkMarks, summarize, undueErrors } from './check-samples.ts'
import { PATIENCE_MS } from './check-site.ts'
import { Exchange } from './exchange.ts'
import { residentMiB } from './memory.ts'
import type { Length, Outcome, Scenario } from './scenario.ts'
import type { Site } from './site.ts'
import { startTraffic } from './traffic.ts'

/** Time in which all that an exchange held is given back, ms. */
const FREE_WITHIN_MS = 2_000
const freeWithinMs = ({ isTimed }: Length) => (isTimed ? FREE_WITHIN_MS : PATIENCE_MS)
/** They come one after the other, as this is no test of how many connections can be opened at once. */
const EVERY_MS = 4
/** The share of the usual traffic that goes on beside. */
const BESIDE = 0.25

export interface ExchangeFault {
  readonly fault: string
  readonly promised: string
  readonly path: string
  readonly method?: 'GET' | 'POST'
  /** How many at once, where it matters. */
  readonly crowd?: (length: Length) => number
  /** All through one point of presence, so that together they show in its memory. */
  readonly mostGrowthMiB?: number
  /** Plays its part in one exchange. @returns what was not as promised */
  check(exchange: Exchange, site: Site, length: Length): Promise<string | undefined>
}

/** A crowd of exchanges that go wrong between client and upstream, while other requests go on as ever. */
export function exchangeFault(options: ExchangeFault): Scenario {
  const { fault, promised } = options
  return { fault, promised, run: (site, length) => run(site, length, options) }
}

async function run(site: Site, length: Length, options: ExchangeFault): Promise<Outcome> {
  const { points, upstream } = site
  const { path, method = 'GET', check, mostGrowthMiB } = options
  const logStarts = points.map(({ log }) => log.length)
  const startedMs = performance.now()
  const startMiB = await residentMiB(points)
  let mostMiB = 0
  const sampling = setInterval(async () => {
    const now = await residentMiB(points)
    mostMiB = Math.max(mostMiB, ...now.map((mib, index) => mib - (startMiB[index] ?? 0)))
  }, 50)

  upstream.delayMs = 0
  const urls = points.map(({ url }) => url)
  const traffic = startTraffic({
    points: urls,
    upstream,
    ratePerS: length.ratePerS * BESIDE,
    mostInFlight: length.mostInFlight,
  })
  const used = mostGrowthMiB === undefined ? urls : urls.slice(0, 1)
  const crowd = options.crowd?.(length) ?? length.crowd
  const failures = Array.from({ length: crowd }, async (_, index) => {
    await wait(index * EVERY_MS)
    const exchange = new Exchange(used[index % used.length] as URL, path, method)
    return check(exchange, site, length).catch((error: Error) => `broke off: ${error.message}`)
  })
  const differences = summarize((await Promise.all(failures)).filter((line) => line !== undefined))
  await traffic.answered(length.after.requests)
  const samples = await traffic.stop()
  clearInterval(sampling)

  differences.push(
    ...checkAnswers(samples),
    ...checkMarks(samples, { fromMs: startedMs, toMs: performance.now() }, 'shared'),
  )
  if (mostGrowthMiB !== undefined && mostMiB > mostGrowthMiB) {
    differences.push(`a process grew by ${mostMiB.toFixed()} MiB, not ${mostGrowthMiB} at most`)
  }
  const slots = await untilNone(() => slotsTaken(site, 'guard'), length)
  if (slots > 0) differences.push(`${slots} slots still taken after ${freeWithinMs(length)} ms`)
  const open = await untilNone(async () => upstream.open, length)
  if (open > 0) differences.push(`${open} exchanges still open at the upstream after ${freeWithinMs(length)} ms`)
  const tookMs = performance.now() - startedMs
  for (const [index, { log }] of points.entries()) {
    differences.push(...checkLog(log.slice(logStarts[index]), tookMs))
  }
  return {
    observed: `${crowd} of them, grew by ${mostMiB.toFixed()} MiB, slots free`,
    requests: samples.length + crowd,
    errors: undueErrors(samples),
    differences,
  }
}

async function untilNone(count: () => Promise<number>, length: Length): Promise<number> {
  const untilMs = performance.now() + freeWithinMs(length)
  for (;;) {
    const left = await count()
    if (left === 0 || performance.now() > untilMs) return left
    await wait(20)
  }
}
