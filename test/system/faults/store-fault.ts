import { setTimeout as wait } from 'node:timers/promises'
import { pollUntil } from '../kit/poll.ts'
import { checkAccounts, countUnseenCharges, readAccounts } from './charges.ts'
import { checkLog, checkSecrets, readEvent } from './check-log.ts'
import {
  checkAdmissions,
  checkAnswers,
  checkDeadline,
  checkMarks,
  checkQuick,
  countUndueErrors,
  summarize,
} from './check-samples.ts'
import {
  checkHealth,
  checkSlots,
  measureRecovery,
  PATIENCE_MS,
  RECOVERY_MS,
  waitUntilOpen,
  waitUntilShared,
} from './check-site.ts'
import type { Length, Outcome, Phase, Scenario } from './fault.ts'
import type { Site } from './site.ts'
import { type Sample, startTraffic, waitForAnswers } from './traffic.ts'

/** An isolate calls an absent store at most once in so long, by its shortest pause less jitter. */
const SHORTEST_PAUSE_MS = 187

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
  /** By it, the store misses its deadline. */
  readonly isOfTime?: boolean
  /** As of `Scenario`. */
  readonly isLikeAnother?: boolean
  /** The store loses what it holds. */
  readonly losesState?: boolean
  /** How long it lasts, where it matters. */
  readonly during?: (length: Length) => Phase
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
  const { fault, decides, losesState, isOfTime = false, isLikeAnother = false } = options
  const promised = PROMISES[decides] + (losesState ? '; what was counted is lost' : '')
  return {
    fault,
    promised,
    isOfTime,
    isLikeAnother,
    async run(site, length) {
      await options.prepare?.(site)
      await waitUntilShared(site)
      try {
        return await run(site, length, options)
      } finally {
        if (options.restore) {
          await options.restore(site)
          // The next scenario begins with a store that has been reached again.
          await waitUntilShared(site)
        }
      }
    },
  }
}

async function run(site: Site, length: Length, options: StoreFault): Promise<Outcome> {
  const { points, front } = site
  const { decides } = options
  const logStarts = points.map(({ log }) => log.length)
  const spoiledBefore = front.spoiled
  const waitForLog = (event: string) => waitUntilLogged(points, logStarts, event)
  const play = await playOut(site, length, options, waitForLog)
  const { samples, recoveryMs, peakInFlight } = play

  const differences = [...play.differences, ...judgeAnswers(play, options, length)]
  if (length.isTimed && recoveryMs > RECOVERY_MS) differences.push(`shared again only after ${recoveryMs.toFixed()} ms`)
  if (peakInFlight < length.inFlight) differences.push(`the load had ${peakInFlight} in flight, not ${length.inFlight}`)
  // An answer that a busy machine made late has opened a circuit again, and only a request can close it.
  if (length.isHasty) await waitUntilShared(site)
  differences.push(...(await checkHealth(site, length, 'ok')))

  let unseen = 0
  if (!options.losesState) {
    const accounts = await readAccounts(site, samples, length)
    unseen = countUnseenCharges(accounts)
    differences.push(...checkAccounts(accounts, samples, { ...length, spoiled: front.spoiled - spoiledBefore }))
  }
  differences.push(...(await checkSlots(site, length)))

  const tookMs = performance.now() - play.times.startMs
  if (decides === 'alone') await waitForLog('store_recovered')
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
    errors: countUndueErrors(samples),
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
    /** Every point has called it again. */
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

async function playOut(
  site: Site,
  length: Length,
  options: StoreFault,
  waitForLog: (event: string) => Promise<void>,
): Promise<Play> {
  const { front, upstream } = site
  const { begin, end, decides } = options
  const during = options.during?.(length) ?? length.during
  const ratePerS = options.ratePerS?.(length) ?? length.ratePerS
  upstream.delayMs = length.upstreamDelayMs
  const startMs = performance.now()
  const traffic = startTraffic(site, { ...length, ratePerS })
  const last = ({ ms, requests }: Phase) => Promise.all([wait(ms), waitForAnswers(traffic, requests)])
  await last(length.before)

  const beginMs = performance.now()
  await begin(site)
  const brokenMs = performance.now()
  if (decides === 'alone') {
    await waitUntilOpen(site)
    // Their calls were made before.
    await traffic.drain()
  }
  const openMs = performance.now()
  const callsBefore = front.scriptCalls
  await last({ ...during, ms: Math.max(0, during.ms - (openMs - brokenMs)) })
  if (decides === 'alone') await waitForLog('store_error')
  const differences = decides === 'alone' ? await checkHealth(site, length, 'degraded') : []
  const probes = front.scriptCalls - callsBefore

  const mendingMs = performance.now()
  await end(site)
  const mendedMs = performance.now()
  // Calls of which some are still to fail were sent before that.
  if (decides === 'either') await traffic.drain()
  const recoveryMs = await measureRecovery(site, length, traffic.seen, mendedMs)
  const sharedMs = performance.now()
  await last(length.after)
  const samples = await traffic.stop()
  const stopMs = performance.now()
  const times = { startMs, beginMs, brokenMs, openMs, mendingMs, sharedMs, stopMs }
  return { samples, times, ratePerS, recoveryMs, probes, peakInFlight: traffic.peakInFlight, differences }
}

function judgeAnswers(
  { samples, times, probes }: Play,
  { decides, losesState = false }: StoreFault,
  length: Length,
): string[] {
  const { startMs, beginMs, brokenMs, openMs, mendingMs, sharedMs, stopMs } = times
  const differences = [
    ...checkAnswers(samples),
    ...checkAdmissions(samples, length, losesState ? 1 : 0),
    ...summarize(samples.flatMap(({ text }) => checkSecrets(text, 'an answer'))),
  ]
  if (length.isTimed) differences.push(...checkDeadline(samples, length))
  if (!length.isHasty) {
    differences.push(
      ...checkMarks(samples, { fromMs: startMs, toMs: beginMs }, 'shared').map((line) => `before: ${line}`),
      ...checkMarks(samples, { fromMs: sharedMs, toMs: stopMs }, 'shared').map((line) => `after: ${line}`),
    )
  }
  if (decides === 'shared') differences.push(...checkMarks(samples, { fromMs: startMs, toMs: stopMs }, 'shared'))
  if (decides !== 'alone') return differences

  differences.push(...checkMarks(samples, { fromMs: brokenMs, toMs: mendingMs }, 'alone'))
  if (length.isTimed) differences.push(...checkQuick(samples, { fromMs: openMs, toMs: mendingMs }))
  const due = length.points * (Math.ceil((mendingMs - openMs) / SHORTEST_PAUSE_MS) + 1)
  if (probes > due) differences.push(`${probes} calls of an absent store, where ${due} probes are due`)
  return differences
}

/**
 * Resolves when each point's log has such a line, or will never have one: it may come later than an answer, and not
 * within a second of the last of its kind.
 */
async function waitUntilLogged(points: Site['points'], logStarts: readonly number[], expected: string): Promise<void> {
  const isLogged = () =>
    points.every(({ log }, index) => log.slice(logStarts[index]).some((line) => readEvent(line) === expected))
  await pollUntil({ withinMs: PATIENCE_MS, everyMs: 10 }, isLogged)
}

function judgeLog(lines: readonly string[], decides: StoreFault['decides'], tookMs: number): string[] {
  const errors = lines.filter((line) => readEvent(line) === 'store_error')
  const recoveries = lines.filter((line) => readEvent(line) === 'store_recovered')
  return [
    ...checkLog(lines, tookMs),
    ...(decides === 'alone' && errors.length === 0 ? ['a point without a line store_error'] : []),
    ...(decides === 'alone' && recoveries.length === 0 ? ['a point without a line store_recovered'] : []),
    ...(decides === 'shared' ? errors.map((line) => `while the store served: ${line}`) : []),
  ]
}
