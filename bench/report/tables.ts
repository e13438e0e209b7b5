import type { AccuracyFigures, LeaseFigures } from '../accuracy/measure.ts'
import type { FloodFigures } from '../floods/measure.ts'
import type { GatewayFigures } from '../gateway/measure.ts'
import type { PairFigures } from '../gateway/side-by-side.ts'
import type { IdentityFigures } from '../identities/measure.ts'
import type { LibraryFigures } from '../library/measure.ts'
import type { OperateFigures } from '../operate/measure.ts'
import { NEW_CALLER, type RedisFigures } from '../redis/measure.ts'
import type { Results } from '../results.ts'
import type { RulesFigures } from '../rules/measure.ts'
import { OBJECTS, type StoreFigures } from '../stores/measure.ts'
import type { LoadFigures } from '../stores/measure-load.ts'
import type { WorstFigures } from '../worst/measure.ts'
import type { Claim } from './claims.ts'
import { markdownTable, type Row } from './markdown.ts'

/** https://upstash.com/pricing/redis: $0.20 per 100,000 commands. */
const DOLLARS_PER_COMMAND = 0.2 / 100_000

/** Prints a run's figures. */
export function printTables({
  redis,
  gateway,
  pairs,
  stores,
  loads,
  operate,
  bundles,
  accuracy,
  worst,
  leases,
  library,
  rules,
  floods,
  identities,
}: Results): void {
  if (redis) print('In Redis: µs of server time, billed commands and bytes of a decision', redis.map(redisRow))
  if (gateway) {
    print('Through the gateway, one hot caller', gateway.map(gatewayRow))
    print('Cost of a million requests', gateway.filter(({ restLatencyMs }) => restLatencyMs === 0).map(costRow))
  }
  if (pairs) print('Side by side: two gateways, loaded at the same time', pairs.map(pairRow))
  if (stores)
    print(
      'The same gateway over each store',
      stores.map((row) => storeRow(row, stores)),
    )
  if (loads) print('An object that was evicted: what its first call takes longer', loads.map(loadRow))
  if (operate) print('What operators turn on, off and on', operate.map(operateRow))
  if (bundles)
    print(
      'Bundles',
      Object.entries(bundles).map(([worker, kib]) => ({ worker, 'KiB gzipped': round(kib) })),
    )
  if (accuracy) print('Accuracy under attack', accuracy.map(accuracyRow))
  if (worst) print('An ordinary request, and the worst found', worst.map(worstRow))
  if (leases) print('Leases, simulated: admitted ÷ ideal (calls a request), by ms to the store', leaseRows(leases))
  if (library) {
    print('The library, in memory: decisions a second of one processor', library.inMemory.map(inMemoryRow))
    print('The library, in memory: bytes of a caller', library.memory.map(memoryRow))
    print('The library, over Redis: a decision', library.overRedis.map(overRedisRow))
    print('Waiting: 80 calls at 20 in 500 ms, the second 450 ms after the first', library.waiting.map(waitingRow))
  }
  if (rules) print(`What ${rules.entries} rules add to a request, µs`, rules.requests.map(rulesRow))
  if (floods) print('A flood of 200 refused requests a second: each of them costs', floods.map(floodRow))
  if (identities) print('A decision by several policies, each by an identity of its own', identities.map(identityRow))
}

export function printClaims(claims: readonly Claim[]): void {
  print(
    'What it must show',
    claims.map(({ claim, measured, isMet }) => ({ '': isMet ? 'met' : 'NOT MET', claim, measured: round(measured) })),
  )
}

function redisRow({ subject, limits, entries, serverUs, billed, bytes }: RedisFigures): Row {
  const perEntry = entries === NEW_CALLER ? '' : round(bytes / entries)
  return {
    limiter: subject,
    limits,
    entries: entries === NEW_CALLER ? 'new caller' : entries,
    µs: round(serverUs),
    commands: round(billed),
    bytes,
    'bytes/entry': perEntry,
  }
}

function inMemoryRow({ limiter, what, perSecond, ratio }: LibraryFigures['inMemory'][number]): Row {
  return { limiter, what, 'decisions/s': Math.round(perSecond), 'Sluice ÷ it': round(ratio) }
}

function memoryRow({ limiter, bytes }: LibraryFigures['memory'][number]): Row {
  return { limiter, bytes: Math.round(bytes) }
}

function overRedisRow({ limiter, requests, processorUs }: LibraryFigures['overRedis'][number]): Row {
  return { limiter, 'REST requests': requests === undefined ? '' : round(requests), 'µs here': round(processorUs) }
}

function waitingRow({ throttle, worst, duration }: LibraryFigures['waiting'][number]): Row {
  return { throttle, 'fullest window ÷ limit': round(worst), 'time ÷ ideal': round(duration) }
}

function floodRow({ flood, store, calls, commands, rowsWritten }: FloodFigures): Row {
  return { flood, store, calls, 'billed commands': commands, 'rows written': rowsWritten }
}

function identityRow({ limiter, store, identities, isNew, ...figures }: IdentityFigures): Row {
  const isOverRedis = store === 'Redis'
  return {
    ...{ limiter, store, identities, caller: isNew ? 'new' : 'hot' },
    'µs in Redis': isOverRedis ? round(figures.serverUs) : '',
    'billed commands': isOverRedis ? round(figures.billed) : '',
    ...{ calls: figures.calls, 'round trips': figures.roundTrips, bytes: Math.round(figures.bytes) },
    'rows written': isOverRedis ? '' : round(figures.rowsWritten),
  }
}

function rulesRow({ callers, limiterUs, addedUs, medianUs }: RulesFigures): Row {
  const [limiter, added, middle] = [limiterUs, addedUs, medianUs].map(round) as [number, number, number]
  return { callers, 'the limiter itself': limiter, 'the rules add': added, 'median of rounds': middle }
}

function gatewayRow({ variant, restLatencyMs, ...figures }: GatewayFigures): Row {
  return {
    gateway: variant,
    'REST + ms': restLatencyMs,
    'requests/s': Math.round(figures.requestsPerSecond),
    'p50 ms': round(figures.p50Ms),
    'p99 ms': round(figures.p99Ms),
    'REST calls': round(figures.restCalls),
    commands: round(figures.billed),
    'CPU µs': round(figures.processorUs),
  }
}

function storeRow({ variant, store, callers, ...figures }: StoreFigures, all: readonly StoreFigures[]): Row {
  const beside = all.find((row) => row.store === OBJECTS && row.variant === variant && row.callers === callers)
  return {
    gateway: variant,
    store,
    callers,
    'requests/s': Math.round(figures.requestsPerSecond),
    'objects ÷ it': round((beside?.requestsPerSecond ?? Number.NaN) / figures.requestsPerSecond),
    'p50 ms': round(figures.p50Ms),
    'p99 ms': round(figures.p99Ms),
    'p50 ms, one by one': round(figures.aloneP50Ms),
    'CPU µs': Math.round(figures.processorUs),
  }
}

function loadRow({ entries, elapsedMs, processorMs, rowsRead }: LoadFigures): Row {
  return { 'entries of its log': entries, ms: round(elapsedMs), 'CPU ms': round(processorMs), 'rows read': rowsRead }
}

function pairRow({ names, callers, restLatencyMs, ...compared }: PairFigures): Row {
  const [low, high] = compared.ofSpeedMiddle.map(round)
  return {
    gateway: names[0],
    beside: names[1],
    callers,
    'REST + ms': restLatencyMs,
    'requests/s': Math.round(compared.first.perSecond),
    'those of the other': Math.round(compared.second.perSecond),
    ratio: round(compared.ofSpeed),
    'middle half': `${low} – ${high}`,
    'by processor time': round(compared.ofProcessor),
  }
}

function operateRow({ variant, setting, first, second, ofSpeed, ofProcessor }: OperateFigures): Row {
  return {
    gateway: variant,
    on: setting,
    'requests/s off': Math.round(second.perSecond),
    'requests/s on': Math.round(first.perSecond),
    'on ÷ off': round(ofSpeed),
    'CPU µs off': round(second.us),
    'CPU µs on': round(first.us),
    'by processor time': round(ofProcessor),
  }
}

function costRow({ variant, billed }: GatewayFigures): Row {
  const commands = Math.round(billed * 1e6)
  return { gateway: variant, commands, dollars: (commands * DOLLARS_PER_COMMAND).toFixed(2) }
}

function worstRow({ gateway, request, status, processorUs, floorUs }: WorstFigures): Row {
  return {
    ...{ gateway, request: request.replaceAll('|', '\\|'), status, 'CPU µs': Math.round(processorUs) },
    'answered at once': Math.round(floorUs),
    difference: Math.round(processorUs - floorUs),
  }
}

function accuracyRow({ target, traffic, worst, ofIdeal, uncertainMs, worstByRedis }: AccuracyFigures): Row {
  return {
    limiter: target,
    traffic,
    'worst window ÷ limit': worst.toFixed(2),
    'admitted ÷ ideal': ofIdeal.toFixed(3),
    'times known within ms': round(uncertainMs),
    'worst by Redis’s clock': worstByRedis?.toFixed(2) ?? '',
  }
}

function leaseRows(leases: readonly LeaseFigures[]): Row[] {
  const rows = new Map<string, Row>()
  for (const { name, load, leases: size, roundTripMs, isRandom, isBusy, ofIdeal, callsPerRequest } of leases) {
    const id = [name, load, size, isRandom, isBusy].join()
    const row = rows.get(id) ?? { limits: name, load, LEASES: size, arrivals: isRandom ? 'random' : 'regular' }
    rows.set(id, { ...row, [`${roundTripMs} ms`]: `${ofIdeal.toFixed(3)} (${callsPerRequest.toFixed(3)})` })
  }
  return [...rows.values()]
}

/** Three significant figures. */
function round(value: number): number {
  return value >= 100 ? Math.round(value) : Number(value.toPrecision(3))
}

export function print(title: string, rows: readonly Row[]): void {
  console.log(`\n## ${title}\n\n${markdownTable(rows)}`)
}
