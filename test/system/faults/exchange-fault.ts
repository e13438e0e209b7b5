import { setTimeout as wait } from 'node:timers/promises'
import { pollUntil } from '../kit/poll.ts'
import { listTakenSlots } from './charges.ts'
import { checkLog } from './check-log.ts'
import { checkAnswers, checkMarks, countUndueErrors, summarize } from './check-samples.ts'
import { PATIENCE_MS } from './check-site.ts'
import { Exchange } from './exchange.ts'
import type { Length, Outcome, Scenario } from './fault.ts'
import { residentMiB } from './memory.ts'
import type { Site } from './site.ts'
import { startTraffic, waitForAnswers } from './traffic.ts'

/** Time in which all that an exchange held is given back, ms. */
const FREE_WITHIN_MS = 2_000
/** They come one after the other, as this is no test of how many connections can be opened at once. */
const EVERY_MS = 4
/** The share of the usual traffic that goes on meanwhile. */
const OTHER_TRAFFIC = 0.25

export interface ExchangeFault {
  readonly fault: string
  readonly promised: string
  readonly path: string
  readonly method?: 'GET' | 'POST'
  /** How many at once, where it matters. */
  readonly crowd?: (length: Length) => number
  /** All through one point of presence, so that together they show in its memory. */
  readonly maxGrowthMiB?: number
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
  const { path, method = 'GET', check, maxGrowthMiB } = options
  const logStarts = points.map(({ log }) => log.length)
  const startedMs = performance.now()
  const startMiB = await residentMiB(points)
  let maxMiB = 0
  const sampling = setInterval(async () => {
    const now = await residentMiB(points)
    maxMiB = Math.max(maxMiB, ...now.map((mib, index) => mib - (startMiB[index] ?? 0)))
  }, 50)

  upstream.delayMs = 0
  const traffic = startTraffic(site, { ...length, ratePerS: length.ratePerS * OTHER_TRAFFIC })
  const used = maxGrowthMiB === undefined ? points : points.slice(0, 1)
  const crowd = options.crowd?.(length) ?? length.crowd
  const failures = Array.from({ length: crowd }, async (_, index) => {
    await wait(index * EVERY_MS)
    const exchange = new Exchange(used[index % used.length]?.url as URL, path, method)
    return check(exchange, site, length).catch((error: Error) => `broke off: ${error.message}`)
  })
  const differences = summarize((await Promise.all(failures)).filter((line) => line !== undefined))
  await waitForAnswers(traffic, length.after.requests)
  const samples = await traffic.stop()
  clearInterval(sampling)

  differences.push(
    ...checkAnswers(samples),
    ...checkMarks(samples, { fromMs: startedMs, toMs: performance.now() }, 'shared'),
  )
  if (maxGrowthMiB !== undefined && maxMiB > maxGrowthMiB) {
    differences.push(`a process grew by ${maxMiB.toFixed()} MiB, not ${maxGrowthMiB} at most`)
  }
  const times = { withinMs: length.isTimed ? FREE_WITHIN_MS : PATIENCE_MS, everyMs: 20 }
  differences.push(...(await listTakenSlots(site, 'guard', times)))
  const open = await pollUntil(
    times,
    () => upstream.open,
    (left) => left === 0,
  )
  if (open > 0) differences.push(`${open} exchanges still open at the upstream after ${times.withinMs} ms`)
  const tookMs = performance.now() - startedMs
  for (const [index, { log }] of points.entries()) {
    differences.push(...checkLog(log.slice(logStarts[index]), tookMs))
  }
  return {
    observed: `${crowd} of them, grew by ${maxMiB.toFixed()} MiB, slots free`,
    requests: samples.length + crowd,
    errors: countUndueErrors(samples),
    differences,
  }
}
