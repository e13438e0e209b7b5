import { setTimeout as wait } from 'node:timers/promises'
import { PLANTED, STORE_TIMEOUT_MS } from './callers.ts'
import { slotsTaken, unexplainedCharges } from './charges.ts'
import { checkLog, checkSecrets, eventOf } from './check-log.ts'
import {
  checkAdmissions,
  checkAnswers,
  checkDeadline,
  checkMarks,
  checkQuick,
  summarize,
  undueErrors,
} from './check-samples.ts'
import type { Length, Outcome, Scenario } from './scenario.ts'
import type { Site } from './site.ts'
import { type Sample, startTraffic } from './traffic.ts'

/** Promised time from the store's return to shared limits, ms. */
const RECOVERY_MS = 2_000
/** An isolate asks an absent store at most once in so long, by its shortest pause less jitter. */
const SHORTEST_PAUSE_MS = 187
/** When the circuit is open for sure: calls have missed their deadline, and enough of them. */
const OPENED_MS = 2 * STORE_TIMEOUT_MS

export interface StoreFault {
  readonly fault: string
  /** Before any load. */
  prepare?(site: Site): Promise<void>
  /** Breaks it under load. */
  begin(site: Site): void | Promise<void>
  /** Mends it; resolves when the store is back. */
  end(site: Site): void | Promise<void>
  /** After the last look, so that the next scenario finds what this one found. */
  restore?(site: Site): Promise<void>
  /**
   * Who decides meanwhile: the store every request (`shared`), no request (`alone`), or some (`either`).
   */
  readonly decides: 'shared' | 'alone' | 'either'
  /** The store loses what it holds. */
  readonly forgets?: boolean
  /** Charges may be lost with a store that is replaced. */
  readonly losesCharges?: boolean
  /** The store that comes back has a clock that is behind: what the one before has noted stays for so much longer. */
  readonly clockBehindMs?: number
  /** How long it lasts, where it matters. */
  readonly duringMs?: (length: Length) => number
  /** Requests a second, where it matters. */
  readonly ratePerS?: (length: Length) => number
}

const PROMISES = {
  shared: 'no answer without the store; limits exact',
  alone: 'each answer marked, open and closed as set; share × limit an isolate; shared again in 2 s',
  either: 'each answer without the store marked; share × limit an isolate; shared again in 2 s',
}

/** Steady traffic before, during and after a fault of the store. */
export function storeFault(options: StoreFault): Scenario {
  const { fault, decides, forgets } = options
  const promised = PROMISES[decides] + (forgets ? '; what was counted is lost' : '')
  return {
    fault,
    promised,
    async run(site, length) {
      await options.prepare?.(site)
      await settled(site)
      try {
        return await run(site, length, options)
      } finally {
        await options.restore?.(site)
      }
    },
  }
}

/** Resolves when every point has a store again, as it had before the first fault. */
async function settled({ points }: Site): Promise<void> {
  const untilMs = performance.now() + 10_000
  const settling = points.map(async ({ url }) => {
    for (;;) {
      const headers = { authorization: `Bearer ${PLANTED.caller}-${crypto.randomUUID()}` }
      const response = await fetch(new URL('/local', url), { headers })
      await response.arrayBuffer()
      if (response.status === 200 && !response.headers.has('sluice-degraded')) return
      if (performance.now() > untilMs) throw new Error('a point of presence does not return to the store')
      await wait(50)
    }
  })
  await Promise.all(settling)
}

async function run(site: Site, length: Length, options: StoreFault): Promise<Outcome> {
  const { points, front, upstream } = site
  const { begin, end, decides, forgets = false, losesCharges = forgets } = options
  const differences: string[] = []
  const logStarts = points.map(({ log }) => log.length)
  const doubtfulBefore = front.doubtful
  const startedMs = performance.now()

  upstream.delayMs = length.upstreamDelayMs
  const ratePerS = options.ratePerS?.(length) ?? length.ratePerS
  const traffic = startTraffic({ points: points.map(({ url }) => url), upstream, ratePerS })
  await wait(length.beforeMs)

  const beginMs = performance.now()
  await begin(site)
  const brokenMs = performance.now()
  const duringMs = options.duringMs?.(length) ?? length.duringMs
  await wait(Math.min(OPENED_MS, duringMs / 2))
  const callsWhenOpen = front.scriptCalls
  const openMs = performance.now()
  await wait(duringMs - (openMs - brokenMs))
  if (decides === 'alone') differences.push(...(await checkHealth(site, 'degraded')))
  const callsAtEnd = front.scriptCalls
  const mendingMs = performance.now()
  await end(site)
  const mendedMs = performance.now()

  // Calls of which some are still to fail were sent before that.
  if (decides === 'either') await wait(STORE_TIMEOUT_MS)
  const recoveryMs = await recovery(site, traffic.samples, mendedMs)
  if (recoveryMs > RECOVERY_MS) differences.push(`shared again only after ${recoveryMs.toFixed()} ms`)
  const sharedMs = performance.now()
  await wait(length.afterMs)
  const samples = await traffic.stop()
  const stoppedMs = performance.now()

  differences.push(
    ...checkAnswers(samples),
    ...checkDeadline(samples),
    ...checkAdmissions(samples, points.length, forgets ? 1 : 0),
    ...checkMarks(samples, { fromMs: startedMs, toMs: beginMs }, 'shared').map((line) => `before: ${line}`),
    ...checkMarks(samples, { fromMs: sharedMs, toMs: stoppedMs }, 'shared').map((line) => `after: ${line}`),
    ...summarize(samples.flatMap(({ text }) => checkSecrets(text, 'an answer'))),
  )
  if (decides === 'alone') {
    differences.push(...checkMarks(samples, { fromMs: brokenMs, toMs: mendingMs }, decides))
  } else if (decides === 'shared') {
    differences.push(...checkMarks(samples, { fromMs: startedMs, toMs: stoppedMs }, decides))
  }
  if (decides === 'alone' && duringMs > OPENED_MS) {
    differences.push(...checkQuick(samples, { fromMs: openMs, toMs: mendingMs }))
    const allowed = points.length * (Math.ceil((mendingMs - openMs) / SHORTEST_PAUSE_MS) + 1)
    const asked = callsAtEnd - callsWhenOpen
    if (asked > allowed) differences.push(`${asked} calls of an absent store, where ${allowed} probes are due`)
  }
  differences.push(...(await checkHealth(site, 'ok')))

  let overcharged = 0
  if (!losesCharges) {
    const charges = await unexplainedCharges(site, samples)
    const doubtful = front.doubtful - doubtfulBefore
    overcharged = charges.reduce((sum, units) => sum + Math.max(0, units), 0)
    if (overcharged > doubtful) differences.push(`${overcharged} charges nobody was told of; ${doubtful} can be`)
    const silent = charges.filter((units) => units < 0)
    if (silent.length > 0) differences.push(`${silent.length} callers were admitted without a charge or a mark`)
  }
  differences.push(...(await checkSlots(site, length, options)))

  const tookMs = performance.now() - startedMs
  const logs = points.map(({ log }, index) => log.slice(logStarts[index]))
  for (const lines of logs) {
    differences.push(...checkLog(lines, tookMs))
    const count = (event: string) => lines.filter((line) => eventOf(line) === event).length
    if (decides === 'alone' && count('store_error') === 0) differences.push('a point without a line store_error')
    if (decides === 'alone' && count('store_recovered') === 0)
      differences.push('a point without a line store_recovered')
    if (decides === 'shared') {
      const errors = lines.filter((line) => eventOf(line) === 'store_error')
      differences.push(...errors.map((line) => `while the store served: ${line}`))
    }
  }
  if (traffic.peakInFlight < length.inFlight) {
    differences.push(`the load had ${traffic.peakInFlight} in flight, not ${length.inFlight}`)
  }
  const unmarked = samples.filter(({ degraded }) => degraded === undefined).length
  return {
    observed: [
      `${samples.length - unmarked} without the store`,
      ...(decides === 'shared' ? [] : [`shared after ${(recoveryMs / 1_000).toFixed(1)} s`]),
      ...(overcharged > 0 ? [`${overcharged} charged unseen`] : []),
      `${traffic.peakInFlight} in flight`,
    ].join(', '),
    requests: samples.length,
    errors: undueErrors(samples),
    differences,
  }
}

/** Resolves when each point has admitted a request through the store that was sent since then, ms it took. */
async function recovery({ points }: Site, samples: readonly Sample[], sinceMs: number): Promise<number> {
  const first = (point: number) =>
    samples.find(
      (sample) =>
        sample.point === point && sample.startMs >= sinceMs && sample.status === 200 && sample.degraded === undefined,
    )
  for (;;) {
    const found = points.map((_, point) => first(point))
    const tookMs = performance.now() - sinceMs
    if (found.every((sample) => sample !== undefined)) {
      return Math.max(...found.map((sample) => (sample as Sample).decidedMs - sinceMs))
    }
    if (tookMs > 3 * RECOVERY_MS) return tookMs
    await wait(10)
  }
}

/** Health asks the store once a second at most: a state that was just left may be told for so long. */
async function checkHealth({ points }: Site, expected: 'ok' | 'degraded'): Promise<string[]> {
  const untilMs = performance.now() + RECOVERY_MS
  const states = points.map(async ({ url }, point) => {
    for (;;) {
      const response = await fetch(new URL('/_sluice/health', url))
      const text = await response.text()
      const { status } = JSON.parse(text) as { status: string }
      if (status === expected) return []
      if (performance.now() > untilMs) return [`point ${point}: health says ${text}, not ${expected}`]
      await wait(50)
    }
  })
  return (await Promise.all(states)).flat()
}

/** Slots are given back at once by a store that serves, and at their deadline by one that could not be told. */
async function checkSlots(
  site: Site,
  { name, heldDeadlineMs }: Length,
  { decides, clockBehindMs = 0 }: StoreFault,
): Promise<string[]> {
  // Too long a wait for the short form.
  if (clockBehindMs > 0 && name === 'short') return []
  const withinMs = decides === 'shared' ? RECOVERY_MS : heldDeadlineMs + clockBehindMs + RECOVERY_MS
  const untilMs = performance.now() + withinMs
  for (;;) {
    const taken = await slotsTaken(site, 'held')
    if (taken === 0) return []
    if (performance.now() > untilMs) return [`${taken} slots still taken after ${withinMs} ms`]
    await wait(20)
  }
}
