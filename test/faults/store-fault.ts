import { setTimeout as wait } from 'node:timers/promises'
import { STORE_TIMEOUT_MS } from './callers.ts'
import { accountsOf, checkAccounts, unseenCharges } from './charges.ts'
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
import { checkHealth, checkSlots, RECOVERY_MS, recovery, settled } from './check-site.ts'
import type { Length, Outcome, Scenario } from './scenario.ts'
import type { Site } from './site.ts'
import { type Sample, startTraffic } from './traffic.ts'

/** An isolate asks an absent store at most once in so long, by its shortest pause less jitter. */
const SHORTEST_PAUSE_MS = 187
/** When the circuit is open for sure: calls have missed their deadline, and enough of them. */
const OPENED_MS = 2 * STORE_TIMEOUT_MS
/** A timer may end a little early. */
const TIMER_SLACK_MS = 10

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

async function run(site: Site, length: Length, options: StoreFault): Promise<Outcome> {
  const { points, front } = site
  const { decides } = options
  const logStarts = points.map(({ log }) => log.length)
  const spoiledBefore = front.spoiled
  const play = await playOut(site, length, options)
  const { samples, recoveryMs, peakInFlight } = play

  const differences = [...play.differences, ...judgeAnswers(play, options, points.length)]
  if (recoveryMs > RECOVERY_MS) differences.push(`shared again only after ${recoveryMs.toFixed()} ms`)
  if (peakInFlight < length.inFlight) differences.push(`the load had ${peakInFlight} in flight, not ${length.inFlight}`)
  differences.push(...(await checkHealth(site, 'ok')))

  let unseen = 0
  if (!options.forgets) {
    const accounts = await accountsOf(site, samples)
    unseen = unseenCharges(accounts)
    differences.push(...checkAccounts(accounts, samples, front.spoiled - spoiledBefore))
  }
  differences.push(...(await checkSlots(site, length, options)))

  const tookMs = performance.now() - play.times.startMs
  for (const [index, { log }] of points.entries()) {
    differences.push(...judgeLog(log.slice(logStarts[index]), decides, tookMs))
  }
  const marked = samples.filter(({ degraded }) => degraded !== undefined).length
  return {
    observed: [
      `${play.ratePerS}/s, ${((play.times.mendingMs - play.times.brokenMs) / 1_000).toFixed(1)} s`,
      `${marked} without the store`,
      ...(decides === 'shared' ? [] : [`shared after ${(recoveryMs / 1_000).toFixed(1)} s`]),
      ...(unseen > 0 ? [`${unseen} charged unseen`] : []),
      `${peakInFlight} in flight`,
    ].join(', '),
    requests: samples.length,
    errors: undueErrors(samples),
    differences,
  }
}

/** What was sent and came back, and when, by `performance.now()`, the store changed. */
interface Play {
  readonly samples: readonly Sample[]
  readonly times: {
    readonly startMs: number
    /** It begins to break, and is broken. */
    readonly beginMs: number
    readonly brokenMs: number
    /** Its circuits are open. */
    readonly openMs: number
    /** It begins to be mended. */
    readonly mendingMs: number
    /** Every point has asked it again. */
    readonly sharedMs: number
    readonly stopMs: number
  }
  /** Requests sent a second. */
  readonly ratePerS: number
  readonly recoveryMs: number
  /** Scripts called while circuits were open. */
  readonly probes: number
  readonly peakInFlight: number
  readonly differences: readonly string[]
}

async function playOut(site: Site, length: Length, options: StoreFault): Promise<Play> {
  const { points, front, upstream } = site
  const { begin, end, decides } = options
  const duringMs = options.duringMs?.(length) ?? length.duringMs
  const ratePerS = options.ratePerS?.(length) ?? length.ratePerS
  upstream.delayMs = length.upstreamDelayMs
  const startMs = performance.now()
  const traffic = startTraffic({ points: points.map(({ url }) => url), upstream, ratePerS })
  await wait(length.beforeMs)

  const beginMs = performance.now()
  await begin(site)
  const brokenMs = performance.now()
  await wait(Math.min(OPENED_MS + TIMER_SLACK_MS, duringMs / 2))
  const openMs = performance.now()
  const callsBefore = front.scriptCalls
  await wait(duringMs - (openMs - brokenMs))
  const differences = decides === 'alone' ? await checkHealth(site, 'degraded') : []
  const probes = front.scriptCalls - callsBefore

  const mendingMs = performance.now()
  await end(site)
  const mendedMs = performance.now()
  // Calls of which some are still to fail were sent before that.
  if (decides === 'either') await wait(STORE_TIMEOUT_MS)
  const recoveryMs = await recovery(site, traffic.samples, mendedMs)
  const sharedMs = performance.now()
  await wait(length.afterMs)
  const samples = await traffic.stop()
  const stopMs = performance.now()
  const times = { startMs, beginMs, brokenMs, openMs, mendingMs, sharedMs, stopMs }
  return { samples, times, ratePerS, recoveryMs, probes, peakInFlight: traffic.peakInFlight, differences }
}

function judgeAnswers(
  { samples, times, probes }: Play,
  { decides, forgets = false }: StoreFault,
  points: number,
): string[] {
  const { startMs, beginMs, brokenMs, openMs, mendingMs, sharedMs, stopMs } = times
  const differences = [
    ...checkAnswers(samples),
    ...checkDeadline(samples),
    ...checkAdmissions(samples, points, forgets ? 1 : 0),
    ...checkMarks(samples, { fromMs: startMs, toMs: beginMs }, 'shared').map((line) => `before: ${line}`),
    ...checkMarks(samples, { fromMs: sharedMs, toMs: stopMs }, 'shared').map((line) => `after: ${line}`),
    ...summarize(samples.flatMap(({ text }) => checkSecrets(text, 'an answer'))),
  ]
  if (decides === 'shared') differences.push(...checkMarks(samples, { fromMs: startMs, toMs: stopMs }, 'shared'))
  if (decides !== 'alone') return differences

  differences.push(...checkMarks(samples, { fromMs: brokenMs, toMs: mendingMs }, 'alone'))
  // In a shorter time, some calls are still waiting for their deadline.
  if (openMs - brokenMs >= OPENED_MS) {
    differences.push(...checkQuick(samples, { fromMs: openMs, toMs: mendingMs }))
    const due = points * (Math.ceil((mendingMs - openMs) / SHORTEST_PAUSE_MS) + 1)
    if (probes > due) differences.push(`${probes} calls of an absent store, where ${due} probes are due`)
  }
  return differences
}

function judgeLog(lines: readonly string[], decides: StoreFault['decides'], tookMs: number): string[] {
  const errors = lines.filter((line) => eventOf(line) === 'store_error')
  const recoveries = lines.filter((line) => eventOf(line) === 'store_recovered')
  return [
    ...checkLog(lines, tookMs),
    ...(decides === 'alone' && errors.length === 0 ? ['a point without a line store_error'] : []),
    ...(decides === 'alone' && recoveries.length === 0 ? ['a point without a line store_recovered'] : []),
    ...(decides === 'shared' ? errors.map((line) => `while the store served: ${line}`) : []),
  ]
}
