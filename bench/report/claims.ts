/** The claims that a run must confirm. */
import { LEASED, SLIDING } from '../accuracy/targets.ts'
import { NAMES, SLUICE } from '../gateway/variants.ts'
import { LIBRARY } from '../library/measure.ts'
import { PREFIX_SUMS, SORTED_SET_LOG, SUMMED_STREAM } from '../redis/subjects.ts'
import type { Results } from '../results.ts'
import { nameRedis, OBJECTS } from '../stores/measure.ts'

export interface Claim {
  readonly claim: string
  readonly measured: number
  readonly isMet: boolean
}

/**
 * A refusal is remembered for five seconds at most, and then Redis is asked again: that is not quite nothing.
 */
const ALMOST_NOTHING = 0.001

/** Checks what this run shows of what it must; of a section that was left out, nothing. */
export function checkClaims(results: Results): Claim[] {
  const checks = [
    ...[checkRedis, checkGateways, checkPairs, checkStores, checkOperate, checkAccuracy, checkWorst],
    ...[checkLeases, checkLibrary, checkRules, checkFloods, checkIdentities],
  ]
  return checks.flatMap((check) => check(results))
}

function requireAtMost(bound: number, claim: string, measured: number): Claim {
  return { claim: `${claim} ≤ ${bound}`, measured, isMet: measured <= bound }
}

function requireAtLeast(bound: number, claim: string, measured: number): Claim {
  return { claim: `${claim} ≥ ${bound}`, measured, isMet: measured >= bound }
}

/** @throws Error if the run lacks the row */
function findRow<T extends object>(rows: readonly T[], wanted: Partial<T>): T {
  const isWanted = (row: T) => Object.entries(wanted).every(([name, value]) => row[name as keyof T] === value)
  const found = rows.find(isWanted)
  if (!found) throw new Error(`no figures of ${JSON.stringify(wanted)}`)
  return found
}

function checkRedis({ redis }: Results): Claim[] {
  if (!redis) return []
  const find = (subject: string, limits: number, entries = 100_000) => findRow(redis, { subject, limits, entries })
  const computeGrowth = (limits: number) => find(PREFIX_SUMS, limits).serverUs / find(PREFIX_SUMS, limits, 10).serverUs
  const [own, summed, sorted] = [find(PREFIX_SUMS, 1), find(SUMMED_STREAM, 1), find(SORTED_SET_LOG, 1)]
  return [
    requireAtMost(1.3, 'server time of a decision at 100,000 entries ÷ at 10, 1 limit', computeGrowth(1)),
    requireAtMost(1.3, 'server time of a decision at 100,000 entries ÷ at 10, 3 limits', computeGrowth(3)),
    requireAtLeast(
      1_000,
      'server time at 100,000 entries, summed stream ÷ sliding-window',
      summed.serverUs / own.serverUs,
    ),
    requireAtLeast(6, 'bytes at 100,000 entries, sorted-set log ÷ sliding-window', sorted.bytes / own.bytes),
    requireAtMost(7, 'billed commands of an admission by 3 limits, 100,000 entries', find(PREFIX_SUMS, 3).billed),
  ]
}

function checkGateways({ gateway }: Results): Claim[] {
  if (!gateway) return []
  const find = (variant: string, latencyMs: number) => findRow(gateway, { variant, latencyMs })
  const calls = [...new Set(gateway.map(({ latencyMs }) => latencyMs))].flatMap((ms) => {
    const [leased, flooded] = [find(NAMES.leasesLimits, ms).billed, find(NAMES.flooded, ms).billed]
    return [
      requireAtMost(0.5, `billed commands a request, hot caller, 3 limits, leases, ${ms} ms`, leased),
      requireAtMost(ALMOST_NOTHING, `billed commands a request, flooding caller, ${ms} ms`, flooded),
    ]
  })
  const ratio = find(NAMES.leases, 20).p50Ms / find(NAMES.bare, 20).p50Ms
  return [...calls, requireAtMost(1.2, 'p50, hot caller, leases ÷ bare proxy, 20 ms', ratio)]
}

function checkPairs({ pairs = [] }: Results): Claim[] {
  return pairs.flatMap(({ names, callers, latencyMs, ofProcessor, min }) => {
    if (min === undefined) return []
    const among = `callers: ${callers.toLocaleString('en')}, ${latencyMs} ms`
    return requireAtLeast(min, `requests by the same processor time, ${names.join(' ÷ ')}, ${among}`, ofProcessor)
  })
}

function checkStores({ stores = [], loads = [] }: Results): Claim[] {
  const plain = stores.filter(({ variant }) => variant === NAMES.plain)
  const own = plain.filter(({ store }) => store === OBJECTS)
  return [
    ...own.flatMap(({ callers, requestsPerSecond, aloneP50Ms }) => {
      const redis = findRow(plain, { callers, store: nameRedis(20) })
      const among = `callers: ${callers.toLocaleString('en')}; objects ÷ Redis, 20 ms`
      return [
        requireAtLeast(1, `requests/s, 1 limit, ${among}`, requestsPerSecond / redis.requestsPerSecond),
        requireAtMost(0.5, `p50 of requests sent one by one, ${among}`, aloneP50Ms / redis.aloneP50Ms),
      ]
    }),
    ...loads.map(({ entries, processorMs }) =>
      requireAtMost(
        50,
        `ms of CPU in which an evicted object reads ${entries.toLocaleString('en')} entries`,
        processorMs,
      ),
    ),
  ]
}

function checkOperate({ operate = [] }: Results): Claim[] {
  // A flood is refused so cheaply that a little more is a larger part of it.
  const admitted = operate.filter(({ variant }) => variant !== NAMES.flooded)
  return admitted.map(({ variant, setting, ofProcessor }) =>
    requireAtLeast(0.95, `requests by the same processor time, ${setting} on ÷ off, ${variant}`, ofProcessor),
  )
}

function checkAccuracy({ accuracy }: Results): Claim[] {
  if (!accuracy) return []
  const findWorst = (target: string, key: 'worst' | 'worstByRedis') =>
    Math.max(...accuracy.filter((row) => row.target === target).map((row) => row[key] ?? Number.NaN))
  return [
    requireAtMost(
      1,
      'worst window ÷ limit, sliding-window (the refusal cache is always on)',
      findWorst(SLIDING, 'worst'),
    ),
    requireAtMost(1, 'the same, by the times that Redis holds', findWorst(SLIDING, 'worstByRedis')),
    requireAtMost(1, 'worst window ÷ limit, sliding-window, leases', findWorst(LEASED, 'worst')),
  ]
}

function checkWorst({ worst = [] }: Results): Claim[] {
  const [ordinary, ...found] = worst.filter(({ gateway }) => gateway === SLUICE).map(({ processorUs }) => processorUs)
  if (ordinary === undefined) return []
  return [requireAtMost(1_000, 'µs of CPU, the worst request found − an ordinary one', Math.max(...found) - ordinary)]
}

function checkLeases({ leases }: Results): Claim[] {
  if (!leases) return []
  const findMaxCalls = (name: string) => {
    const own = leases.filter((row) => row.isBusy && row.name === name)
    return Math.max(...own.map(({ callsPerRequest }) => callsPerRequest))
  }
  const minOfIdeal = Math.min(...leases.map(({ ofIdeal }) => ofIdeal))
  const fullest = Math.max(...leases.map(({ fullestWindow }) => fullestWindow))
  return [
    requireAtLeast(0.97, 'admitted ÷ ideal with leases, the worst, simulated', minOfIdeal),
    requireAtMost(1, 'worst window ÷ limit with leases, simulated', fullest),
    ...['1000/1m', '100000/1m'].map((name) =>
      requireAtMost(0.1, `calls a request at half of ${name}, leases, simulated`, findMaxCalls(name)),
    ),
  ]
}

function checkLibrary({ library }: Results): Claim[] {
  if (!library) return []
  const others = library.inMemory.filter(({ limiter }) => limiter !== LIBRARY)
  const [ownBytes = Number.NaN, ...otherBytes] = library.memory.map(({ bytes }) => bytes)
  return [
    ...others.map(({ limiter, what, ratio }) =>
      requireAtLeast(
        what.startsWith('refused') ? 3 : 1,
        `time of a decision in memory, ${what}: ${limiter} ÷ Sluice`,
        ratio,
      ),
    ),
    requireAtMost(1, 'bytes of a caller in memory ÷ the least of the others', ownBytes / Math.min(...otherBytes)),
    requireAtMost(1, 'requests to Redis of a decision, after the first', library.restRequests),
    requireAtMost(
      1,
      'calls in the fullest window ÷ limit, of waitFor',
      findRow(library.waiting, { throttle: LIBRARY }).worst,
    ),
  ]
}

function checkRules({ rules }: Results): Claim[] {
  if (!rules) return []
  return rules.requests.map(({ callers, addedUs }) =>
    requireAtMost(
      5,
      `µs that ${rules.entries.toLocaleString('en')} rules add to a request, callers ${callers}`,
      addedUs,
    ),
  )
}

function checkFloods({ floods }: Results): Claim[] {
  if (!floods) return []
  return [
    requireAtMost(0.05, 'calls for a refused request of any flood', Math.max(...floods.map(({ calls }) => calls))),
  ]
}

function checkIdentities({ identities = [] }: Results): Claim[] {
  const own = identities.filter(({ limiter, store }) => limiter === 'Sluice' && store === 'Redis')
  if (own.length === 0) return []
  return [requireAtMost(1, 'REST calls of a decision by six identities', Math.max(...own.map(({ calls }) => calls)))]
}
