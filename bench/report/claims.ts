import { LEASED, SLIDING } from '../accuracy/targets.ts'
import type { GatewayFigures } from '../gateway/measure.ts'
import { NAMES, SLUICE } from '../gateway/variants.ts'
import { LIBRARY, LIBRARY_OVER_REST } from '../library/measure.ts'
import { PREFIX_SUMS, SORTED_SET_LOG, SUMMED_STREAM } from '../redis/subjects.ts'
import type { Results } from '../results.ts'
import { OBJECTS, redisAt, type StoreFigures } from '../stores/measure.ts'
import type { WorstFigures } from '../worst/measure.ts'

/** What a run must show. */
export interface Claim {
  readonly claim: string
  readonly measured: number
  readonly isMet: boolean
}

/**
 * A refusal is forgotten after five seconds at the latest, and then Redis is asked again: that is not quite nothing.
 */
const ALMOST_NOTHING = 0.001

/** What this run shows of what it must; of a section that was not run, nothing. */
export function checkClaims(results: Results): Claim[] {
  return [
    ...redisClaims(results),
    ...gatewayClaims(results),
    ...pairClaims(results),
    ...storeClaims(results),
    ...operateClaims(results),
    ...accuracyClaims(results),
    ...worstClaims(results),
    ...leaseClaims(results),
    ...libraryClaims(results),
    ...rulesClaims(results),
    ...floodClaims(results),
    ...identityClaims(results),
  ]
}

function atMost(bound: number, claim: string, measured: number): Claim {
  return { claim: `${claim} ≤ ${bound}`, measured, isMet: measured <= bound }
}

function atLeast(bound: number, claim: string, measured: number): Claim {
  return { claim: `${claim} ≥ ${bound}`, measured, isMet: measured >= bound }
}

function floodClaims({ floods = [] }: Results): Claim[] {
  if (floods.length === 0) return []
  return [atMost(0.05, 'calls for a refused request of any flood', Math.max(...floods.map(({ calls }) => calls)))]
}

function identityClaims({ identities = [] }: Results): Claim[] {
  const own = identities.filter(({ limiter, store }) => limiter === 'Sluice' && store === 'Redis')
  if (own.length === 0) return []
  return [atMost(1, 'REST calls of a decision by six identities', Math.max(...own.map(({ calls }) => calls)))]
}

function storeClaims({ stores = [], loads = [] }: Results): Claim[] {
  const plain = stores.filter(({ variant }) => variant === NAMES.plain)
  return [
    ...plain
      .filter(({ store }) => store === OBJECTS)
      .flatMap((objects) => {
        const { callers } = objects
        const redis = plain.find((row) => row.callers === callers && row.store === redisAt(20)) as StoreFigures
        const beside = `callers: ${callers.toLocaleString('en')}; objects ÷ Redis, 20 ms`
        return [
          atLeast(1, `requests/s, 1 limit, ${beside}`, objects.requestsPerSecond / redis.requestsPerSecond),
          atMost(0.5, `p50 of requests sent one by one, ${beside}`, objects.aloneP50Ms / redis.aloneP50Ms),
        ]
      }),
    ...loads.map(({ entries, processorMs }) =>
      atMost(50, `ms of CPU in which an evicted object reads ${entries.toLocaleString('en')} entries`, processorMs),
    ),
  ]
}

function operateClaims({ operate = [] }: Results): Claim[] {
  // A flood is refused so cheaply that a little more is a larger part of it.
  const admitted = operate.filter(({ variant }) => variant !== NAMES.flooded)
  return admitted.map(({ variant, setting, ofProcessor }) =>
    atLeast(0.95, `requests by the same processor time, ${setting} on ÷ off, ${variant}`, ofProcessor),
  )
}

function rulesClaims({ rules }: Results): Claim[] {
  if (!rules) return []
  return rules.requests.map(({ callers, addedUs }) =>
    atMost(5, `µs that ${rules.entries.toLocaleString('en')} rules add to a request, callers ${callers}`, addedUs),
  )
}

function libraryClaims({ library }: Results): Claim[] {
  if (!library) return []
  const beside = library.inMemory.filter(({ limiter }) => limiter !== LIBRARY)
  const [ownBytes = Number.NaN, ...otherBytes] = library.memory.map(({ bytes }) => bytes)
  const requests = library.overRedis.find(({ limiter }) => limiter === LIBRARY_OVER_REST)?.requests ?? Number.NaN
  const worst = library.waiting.find(({ throttle }) => throttle === LIBRARY)?.worst ?? Number.NaN
  return [
    ...beside.map(({ limiter, what, ratio }) =>
      atLeast(what.includes('100000') ? 0.6 : 1, `decisions a second in memory, ${what}, ÷ ${limiter}`, ratio),
    ),
    atMost(1, 'bytes of a caller in memory ÷ the least of the others', ownBytes / Math.min(...otherBytes)),
    atMost(1, 'requests to Redis of a decision, after the first', requests),
    atMost(1, 'calls in the fullest window ÷ limit, of waitFor', worst),
  ]
}

function redisClaims({ redis }: Results): Claim[] {
  if (!redis) return []
  const figure = (subject: string, limits: number, entries: number) => {
    const found = redis.find((row) => row.subject === subject && row.limits === limits && row.entries === entries)
    if (!found) throw new Error(`no figures of ${subject}`)
    return found
  }
  const growth = (limits: number) =>
    figure(PREFIX_SUMS, limits, 100_000).serverUs / figure(PREFIX_SUMS, limits, 10).serverUs
  const bytes = (subject: string) => figure(subject, 1, 100_000).bytes
  const [summed, own] = [figure(SUMMED_STREAM, 1, 100_000), figure(PREFIX_SUMS, 1, 100_000)]
  return [
    atMost(1.3, 'server time of a decision at 100,000 entries ÷ at 10, 1 limit', growth(1)),
    atMost(1.3, 'server time of a decision at 100,000 entries ÷ at 10, 3 limits', growth(3)),
    atLeast(1_000, 'server time at 100,000 entries, summed stream ÷ sliding-window', summed.serverUs / own.serverUs),
    atLeast(6, 'bytes at 100,000 entries, sorted-set log ÷ sliding-window', bytes(SORTED_SET_LOG) / bytes(PREFIX_SUMS)),
    atMost(7, 'billed commands of an admission by 3 limits, 100,000 entries', figure(PREFIX_SUMS, 3, 100_000).billed),
  ]
}

function gatewayClaims({ gateway }: Results): Claim[] {
  if (!gateway) return []
  const figure = (variant: string, restLatencyMs: number): GatewayFigures => {
    const found = gateway.find((row) => row.variant === variant && row.restLatencyMs === restLatencyMs)
    if (!found) throw new Error(`no figures of ${variant}`)
    return found
  }
  const [bare, leased] = [figure(NAMES.bare, 20), figure(NAMES.leases, 20)]
  return [
    ...[...new Set(gateway.map(({ restLatencyMs }) => restLatencyMs))].flatMap((ms) => [
      atMost(
        0.5,
        `billed commands a request, hot caller, 3 limits, leases, ${ms} ms`,
        figure(NAMES.leasesLimits, ms).billed,
      ),
      atMost(ALMOST_NOTHING, `billed commands a request, flooding caller, ${ms} ms`, figure(NAMES.flooded, ms).billed),
    ]),
    atMost(1.2, 'p50, hot caller, leases ÷ bare proxy, 20 ms', leased.p50Ms / bare.p50Ms),
  ]
}

function pairClaims({ pairs = [] }: Results): Claim[] {
  return pairs.flatMap(({ names, callers, restLatencyMs, ofProcessor, least }) => {
    if (least === undefined) return []
    const among = `callers: ${callers.toLocaleString('en')}, ${restLatencyMs} ms`
    return atLeast(least, `requests by the same processor time, ${names.join(' ÷ ')}, ${among}`, ofProcessor)
  })
}

function worstClaims({ worst }: Results): Claim[] {
  if (!worst) return []
  const [ordinary, ...found] = worst.filter(({ gateway }) => gateway === SLUICE)
  if (!ordinary) return []
  const beyondFloor = ({ processorUs, floorUs }: WorstFigures) => processorUs - floorUs
  const most = (costOf: (figures: WorstFigures) => number) => Math.max(...found.map(costOf)) - costOf(ordinary)
  return [
    atMost(
      1_000,
      'µs of CPU, the worst request found − an ordinary one',
      most(({ processorUs }) => processorUs),
    ),
    atMost(1_000, 'the same, each without what a Worker takes that answers it at once', most(beyondFloor)),
  ]
}

function accuracyClaims({ accuracy }: Results): Claim[] {
  if (!accuracy) return []
  const worst = (target: string, key: 'worst' | 'worstByRedis') =>
    Math.max(...accuracy.filter((row) => row.target === target).map((row) => row[key] ?? Number.NaN))
  return [
    atMost(1, 'worst window ÷ limit, sliding-window (the refusal cache is always on)', worst(SLIDING, 'worst')),
    atMost(1, 'the same, by the times that Redis holds', worst(SLIDING, 'worstByRedis')),
    atMost(1, 'worst window ÷ limit, sliding-window, leases', worst(LEASED, 'worst')),
  ]
}

function leaseClaims({ leases }: Results): Claim[] {
  if (!leases) return []
  const calls = (name: string) => {
    const own = leases.filter((row) => row.isBusy && row.name === name)
    return Math.max(...own.map(({ callsPerRequest }) => callsPerRequest))
  }
  return [
    atLeast(0.97, 'admitted ÷ ideal with leases, the worst, simulated', Math.min(...leases.map((row) => row.ofIdeal))),
    atMost(1, 'worst window ÷ limit with leases, simulated', Math.max(...leases.map((row) => row.fullestWindow))),
    ...['1000/1m', '100000/1m'].map((name) =>
      atMost(0.1, `calls a request at half of ${name}, leases, simulated`, calls(name)),
    ),
  ]
}
