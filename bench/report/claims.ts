/** The claims that a run must confirm. */
import { LEASED, SLIDING } from '../accuracy/targets.ts'
import { NAMES } from '../gateway/variants.ts'
import { LIBRARY } from '../library/measure.ts'
import { PREFIX_SUMS, SORTED_SET_LOG, SUMMED_STREAM } from '../redis/subjects.ts'
import type { Results } from '../results.ts'

export interface Claim {
  readonly claim: string
  readonly measured: number
  readonly isMet: boolean
}

/** Checks what this run shows of what it must; of a section that was left out, nothing. */
export function checkClaims(results: Results): Claim[] {
  const checks = [
    ...[checkAccuracy, checkRedis, checkInstructions, checkIdentities, checkPairs, checkStarts, checkWorst],
    ...[checkRules, checkEvictions, checkFloods, checkLeases, checkLibrary],
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

function checkRedis({ redis }: Results): Claim[] {
  if (!redis) return []
  const find = (subject: string, entries = 100_000) => findRow(redis, { subject, entries })
  const [own, few, summed] = [find(PREFIX_SUMS), find(PREFIX_SUMS, 10), find(SUMMED_STREAM)]
  const grown = own.serverUs.median / few.serverUs.median
  const saved = summed.serverUs.median / own.serverUs.median
  return [
    requireAtMost(1.3, 'server time of a decision at 100,000 entries ÷ at 10', grown),
    requireAtLeast(1_000, 'server time at 100,000 entries, summed stream ÷ sliding-window', saved),
    requireAtLeast(
      6,
      'bytes at 100,000 entries, sorted-set log ÷ sliding-window',
      find(SORTED_SET_LOG).bytes / own.bytes,
    ),
  ]
}

function checkInstructions({ instructions }: Results): Claim[] {
  if (!instructions) return []
  const { hotCaller } = findRow(instructions, { limiter: PREFIX_SUMS, limits: 3 })
  return [requireAtMost(7, 'billed commands of an admission by 3 limits', hotCaller.commands)]
}

function checkIdentities({ identities = [] }: Results): Claim[] {
  const own = identities.filter(({ limiter, store }) => limiter === LIBRARY && store === 'Redis')
  if (own.length === 0) return []
  return [requireAtMost(1, 'REST calls of a decision by six identities', Math.max(...own.map(({ calls }) => calls)))]
}

function checkPairs({ gateway = [] }: Results): Claim[] {
  return gateway.flatMap(({ names, callers, fields, latencyMs, ofProcessor, min }) => {
    if (min === undefined) return []
    const among = `callers: ${callers.toLocaleString('en')}, ${fields} fields, ${latencyMs} ms`
    const claim = `requests by the same processor time, ${names.join(' ÷ ')}, ${among}`
    return requireAtLeast(min, claim, ofProcessor.median)
  })
}

function checkStarts({ start }: Results): Claim[] {
  if (!start) return []
  const [own, peer] = [NAMES.plain, NAMES.upstash].map((worker) => findRow(start, { worker }))
  if (!own || !peer) return []
  const burst = own.burstMs.median / peer.burstMs.median
  return [
    requireAtMost(200, 'million instructions until it listens', own.instructions.start),
    requireAtMost(8, 'million instructions of the first request', own.instructions.request),
    requireAtMost(1, 'time of the first 256 requests at once ÷ that of the peer', burst),
  ]
}

function checkWorst({ worst = [] }: Results): Claim[] {
  const own = worst.filter(({ gateway }) => gateway === NAMES.plain).map(({ processorUs }) => processorUs.median)
  const [ordinary, ...found] = own
  if (ordinary === undefined) return []
  return [requireAtMost(1_000, 'µs of CPU, the worst request found − an ordinary one', Math.max(...found) - ordinary)]
}

function checkRules({ rules }: Results): Claim[] {
  if (!rules) return []
  return rules.requests.map(({ callers, addedUs }) =>
    requireAtMost(
      5,
      `µs that ${rules.entries.toLocaleString('en')} rules add to a request, callers ${callers}`,
      addedUs.median,
    ),
  )
}

function checkEvictions({ evictions = [] }: Results): Claim[] {
  return evictions.map(({ entries, processorMs }) => {
    const claim = `ms of CPU in which an evicted object reads ${entries.toLocaleString('en')} entries`
    return requireAtMost(50, claim, processorMs.median)
  })
}

function checkFloods({ floods }: Results): Claim[] {
  if (!floods) return []
  return [
    requireAtMost(0.05, 'calls for a refused request of any flood', Math.max(...floods.map(({ calls }) => calls))),
  ]
}

function checkLeases({ leases }: Results): Claim[] {
  if (!leases) return []
  return ['1000/1m', '100000/1m'].map((limit) => {
    const own = leases.filter(({ name }) => name === limit).map(({ callsPerRequest }) => callsPerRequest)
    return requireAtMost(0.1, `calls a request at half of ${limit}, leases, simulated`, Math.max(...own))
  })
}

function checkLibrary({ library }: Results): Claim[] {
  if (!library) return []
  const others = library.inMemory.filter(({ limiter }) => limiter !== LIBRARY)
  const [ownBytes = Number.NaN, ...otherBytes] = library.memory.map(({ bytes }) => bytes)
  return [
    ...others.map(({ node, limiter, what, callers, decisions, ratio }) => {
      const by = `${decisions.toLocaleString('en')} by ${callers.toLocaleString('en')} callers`
      const claim = `time of a decision in memory, Node ${node}, ${what}, ${by}: ${limiter} ÷ Sluice`
      return requireAtLeast(what.endsWith('refused') ? 3 : 1, claim, ratio.median)
    }),
    requireAtMost(1, 'bytes of a caller in memory ÷ the least of the others', ownBytes / Math.min(...otherBytes)),
    requireAtMost(1, 'requests to Redis of a decision, after the first', library.restRequests),
    requireAtMost(
      1,
      'calls in the fullest window ÷ limit, of waitFor',
      findRow(library.waiting, { throttle: LIBRARY }).worst,
    ),
  ]
}
