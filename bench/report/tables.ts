/** Prints the figures of a run. */
import type { AccuracyFigures, LeaseFigures } from '../accuracy/measure.ts'
import type { FloodFigures } from '../floods/measure.ts'
import type { Comparison } from '../gateway/compare.ts'
import type { GatewayFigures } from '../gateway/measure.ts'
import type { OperateFigures } from '../gateway/operate.ts'
import type { PairFigures } from '../gateway/side-by-side.ts'
import type { IdentityFigures } from '../identities/measure.ts'
import type { LibraryFigures } from '../library/measure.ts'
import { NEW_CALLER, type RedisFigures } from '../redis/measure.ts'
import type { Results } from '../results.ts'
import type { RulesFigures } from '../rules/measure.ts'
import { OBJECTS, type StoreFigures } from '../stores/measure.ts'
import type { LoadFigures } from '../stores/measure-load.ts'
import type { WorstFigures } from '../worst/measure.ts'
import type { Claim } from './claims.ts'
import { formatRows, type Row } from './markdown.ts'

export function printTables(results: Results): void {
  const { redis, gateway, pairs, stores = [], loads, operate, accuracy, worst, leases, library, rules } = results
  print('In Redis: µs of server time, billed commands and bytes of a decision', redis?.map(toRedisRow))
  print('Through the gateway, one hot caller', gateway?.map(toGatewayRow))
  print('Side by side: two gateways, loaded at the same time', pairs?.map(toPairRow))
  print(
    'The same gateway over each store',
    stores.map((row) => toStoreRow(row, stores)),
  )
  print('An object that was evicted: what its first call takes longer', loads?.map(toLoadRow))
  print('What operators turn on, off and on', operate?.map(toOperateRow))
  print('Accuracy under attack', accuracy?.map(toAccuracyRow))
  print('An ordinary request, and the worst found', worst?.map(toWorstRow))
  print('Leases, simulated: admitted ÷ ideal (calls a request), by ms to the store', leases && toLeaseRows(leases))
  print(
    'The library, in memory: µs of processor time of a decision, each limiter in processes of its own',
    library?.inMemory.map(toDecisionRow),
  )
  print('The library, in memory: bytes of a caller', library?.memory.map(toMemoryRow))
  print('Waiting: 80 calls at 20 in 500 ms, the second 450 ms after the first', library?.waiting.map(toWaitingRow))
  print(`What ${rules?.entries} rules add to a request, µs`, rules?.requests.map(toRulesRow))
  print('A flood of 200 refused requests a second: each of them costs', results.floods?.map(toFloodRow))
  print('A decision by several policies, each by an identity of its own', results.identities?.map(toIdentityRow))
}

export function printClaims(claims: readonly Claim[]): void {
  print(
    'What it must show',
    claims.map(({ claim, measured, isMet }) => ({ '': isMet ? 'met' : 'NOT MET', claim, measured: round(measured) })),
  )
}

/** Prints nothing for a section that was left out. */
export function print(title: string, rows: readonly Row[] = []): void {
  if (rows.length > 0) console.log(`\n## ${title}\n\n${formatRows(rows)}`)
}

function toRedisRow({ subject, limits, entries, serverUs, billed, bytes }: RedisFigures): Row {
  const isNew = entries === NEW_CALLER
  return {
    ...{ limiter: subject, limits, entries: isNew ? 'new caller' : entries, µs: round(serverUs) },
    ...{ commands: round(billed), bytes, 'bytes/entry': isNew ? '' : round(bytes / entries) },
  }
}

function toGatewayRow({ variant, latencyMs, requestsPerSecond, p50Ms, restCalls, billed }: GatewayFigures): Row {
  return {
    ...{
      gateway: variant,
      'REST + ms': latencyMs,
      'requests/s': Math.round(requestsPerSecond),
      'p50 ms': round(p50Ms),
    },
    ...{ 'REST calls': round(restCalls), commands: round(billed) },
  }
}

function toPairRow({ names, callers, latencyMs, ...compared }: PairFigures): Row {
  return { gateway: names[0], 'compared with': names[1], callers, 'REST + ms': latencyMs, ...toRatio(compared) }
}

function toOperateRow({ variant, setting, ...compared }: OperateFigures): Row {
  return { gateway: variant, on: setting, ...toRatio(compared) }
}

function toRatio({ first, second, ofProcessor }: Comparison): Row {
  return {
    ...{ 'requests/s': Math.round(first.perSecond), 'those of the other': Math.round(second.perSecond) },
    ...{ 'CPU µs': round(first.us), 'those of the other, µs': round(second.us) },
    'ratio by processor time': round(ofProcessor),
  }
}

function toStoreRow({ variant, store, callers, ...figures }: StoreFigures, all: readonly StoreFigures[]): Row {
  const other = all.find((row) => row.store === OBJECTS && row.variant === variant && row.callers === callers)
  return {
    ...{ gateway: variant, store, callers, 'requests/s': Math.round(figures.requestsPerSecond) },
    'objects ÷ it': round((other?.requestsPerSecond ?? Number.NaN) / figures.requestsPerSecond),
    'p50 ms, one by one': round(figures.aloneP50Ms),
  }
}

function toLoadRow({ entries, processorMs }: LoadFigures): Row {
  return { 'entries of its log': entries, 'CPU ms': round(processorMs) }
}

function toAccuracyRow({ target, traffic, worst, worstByRedis }: AccuracyFigures): Row {
  const byRedis = worstByRedis?.toFixed(2) ?? ''
  return { limiter: target, traffic, 'worst window ÷ limit': worst.toFixed(2), 'the same by Redis’s clock': byRedis }
}

function toWorstRow({ gateway, request, processorUs }: WorstFigures): Row {
  return { gateway, request, 'CPU µs': Math.round(processorUs) }
}

function toLeaseRows(leases: readonly LeaseFigures[]): Row[] {
  const rows = new Map<string, Row>()
  for (const { name, load, leases: size, roundTripMs, isRandom, isBusy, ofIdeal, callsPerRequest } of leases) {
    const id = [name, load, size, isRandom, isBusy].join()
    const row = rows.get(id) ?? { limits: name, load, LEASES: size, arrivals: isRandom ? 'random' : 'regular' }
    rows.set(id, { ...row, [`${roundTripMs} ms`]: `${ofIdeal.toFixed(3)} (${callsPerRequest.toFixed(3)})` })
  }
  return [...rows.values()]
}

function toDecisionRow({ limiter, what, us, ratio, spread }: LibraryFigures['inMemory'][number]): Row {
  return { limiter, what, µs: round(us), 'it ÷ Sluice': round(ratio), spread: spread.map(round).join(' to ') }
}

function toMemoryRow({ limiter, bytes }: LibraryFigures['memory'][number]): Row {
  return { limiter, bytes: Math.round(bytes) }
}

function toWaitingRow({ throttle, worst, duration }: LibraryFigures['waiting'][number]): Row {
  return { throttle, 'fullest window ÷ limit': round(worst), 'time ÷ ideal': round(duration) }
}

function toRulesRow({ callers, addedUs }: RulesFigures): Row {
  return { callers, 'the rules add': round(addedUs) }
}

function toFloodRow({ flood, store, calls, commands, rowsWritten }: FloodFigures): Row {
  return { flood, store, calls, 'billed commands': commands, 'rows written': rowsWritten }
}

function toIdentityRow({ limiter, store, identities, isNew, ...figures }: IdentityFigures): Row {
  const isOverRedis = store === 'Redis'
  return {
    ...{ limiter, store, identities, caller: isNew ? 'new' : 'hot' },
    'µs in Redis': isOverRedis ? round(figures.serverUs) : '',
    'billed commands': isOverRedis ? round(figures.billed) : '',
    ...{ calls: figures.calls, 'round trips': figures.roundTrips, bytes: Math.round(figures.bytes) },
    'rows written': isOverRedis ? '' : round(figures.rowsWritten),
  }
}

/** Three significant figures. */
function round(value: number): number {
  return value >= 100 ? Math.round(value) : Number(value.toPrecision(3))
}
