/** The parts of bench/results/performance.md. */
import { LEASED as LEASED_TARGET, SLIDING } from '../accuracy/targets.ts'
import type { FloodFigures } from '../floods/measure.ts'
import type { PairFigures } from '../gateway/side-by-side.ts'
import { NAMES } from '../gateway/variants.ts'
import type { DecisionCounts } from '../instructions/in-redis.ts'
import { LIBRARY, type LibraryFigures, OWN_NODE } from '../library/measure.ts'
import { OCCUPANCIES } from '../redis/measure.ts'
import { PREFIX_SUMS, SUMMED_STREAM } from '../redis/subjects.ts'
import type { Results } from '../results.ts'
import { formatRows, formatSpread, type Row, round } from './markdown.ts'

/** Each formats a part. */
const PARTS = {
  run: formatRun,
  accuracy: formatAccuracy,
  redis: formatRedis,
  instructions: formatInstructions,
  identities: formatIdentities,
  gateway: formatPairs,
  features: formatFeatures,
  added: formatAdded,
  start: formatStarts,
  worst: formatWorst,
  rules: formatRules,
  evictions: formatEvictions,
  floods: formatFloods,
  leases: formatLeases,
  library: formatLibrary,
  serve: formatServe,
} as const

export const PART_NAMES = Object.keys(PARTS)

/** @returns Markdown by name, of all parts that were measured */
export function formatParts(results: Results): Map<string, string> {
  const parts = new Map<string, string>()
  for (const [name, format] of Object.entries(PARTS)) {
    const text = format(results)
    if (text !== undefined) parts.set(name, text)
  }
  return parts
}

/** Characters of a line of README.md. */
const LINE = 110
const SUMMARY = /In our benchmark of.*?\[More\]\(docs\/performance\.md\)/s

/**
 * Writes anew what README.md says of a whole run.
 * @throws Error if it has no place for that
 */
export function renewReadme(readme: string, results: Results): string {
  if (!SUMMARY.test(readme)) throw new Error('README.md has no place for the figures')
  const lines = formatSummary(results).replace(new RegExp(`(.{1,${LINE}})(?: |$)`, 'g'), '$1\n')
  return readme.replace(SUMMARY, () => lines.trim())
}

function formatSummary({ machine, gateway = [], library }: Results): string {
  const answered = (own: string, other: string) =>
    formatRange(findPairs(gateway, own, other).map(({ ofProcessor }) => ofProcessor.median))
  const inMemory =
    library?.inMemory.filter(({ limiter, node }) => limiter !== LIBRARY && node === OWN_NODE.version) ?? []
  const decided = (end: string) =>
    formatRange(inMemory.filter(({ what }) => what.endsWith(end)).map(({ ratio }) => ratio.median))
  return [
    `In our benchmark of ${formatDate(machine.date)}, by processor time, Sluice answered`,
    `${answered(NAMES.plainLimits, NAMES.upstashLimits)} times as many requests as Hono with @upstash/ratelimit at three`,
    `limits, ${answered(NAMES.plain, NAMES.upstash)} at one. In memory, it grants ${decided('granted')} and refuses`,
    `${decided('refused')} times as fast as rate-limiter-flexible. [More](docs/performance.md)`,
  ].join(' ')
}

function formatRun({ machine: { date, processors, versions } }: Results): string {
  const { node, redis, workerd } = versions
  return `${formatDate(date)}, ${processors}, Node ${node}, Redis ${redis}, workerd ${workerd}.`
}

function formatAccuracy({ accuracy }: Results): string | undefined {
  if (!accuracy) return undefined
  const own = [SLIDING, LEASED_TARGET, 'Sluice sorted-set']
  const findWorst = (isMeant: (target: string) => boolean) =>
    Math.max(...accuracy.filter(({ target }) => isMeant(target)).map(({ worst }) => worst)).toFixed(2)
  return (
    `The most that one window held: ${findWorst((target) => !target.startsWith('Sluice'))} times its limit with peers, ` +
    `${findWorst((target) => own.includes(target))} times with the logs of Sluice, with leases or without.`
  )
}

function formatRedis({ redis }: Results): string | undefined {
  if (!redis) return undefined
  const find = (name: string, among: number) =>
    redis.find(({ subject, entries }) => subject === name && entries === among)
  const format = (name: string, among: number) => {
    const row = find(name, among)
    return row ? formatSpread(row.serverUs) : '–'
  }
  const rows = [...Map.groupBy(redis, ({ subject }) => subject)].map(([limiter, own]): Row => {
    const cells = own.map(({ entries, bytes }) => [`${formatCount(entries)} admissions`, formatCount(bytes)])
    return { 'bytes of a caller': limiter, ...Object.fromEntries(cells) }
  })
  return [
    `A decision takes ${format(PREFIX_SUMS, OCCUPANCIES[0])} µs among ${formatCount(OCCUPANCIES[0])} entries,`,
    `${format(PREFIX_SUMS, OCCUPANCIES[2])} among ${formatCount(OCCUPANCIES[2])},`,
    `and ${format(SUMMED_STREAM, OCCUPANCIES[2])} where all entries of a stream are summed.\n\n${formatRows(rows)}`,
  ].join(' ')
}

function formatInstructions({ instructions }: Results): string | undefined {
  if (!instructions) return undefined
  const format = ({ instructions, commands, bytes }: DecisionCounts) =>
    `${formatThousands(instructions)} / ${round(commands)} / ${formatCount(bytes)}`
  const alone = instructions.filter(({ identities }) => identities === undefined)
  return formatRows(
    [...Map.groupBy(alone, ({ limiter }) => limiter)].map(([limiter, own]) => {
      const cells = own.flatMap(({ limits, newCaller, hotCaller }) => {
        const many = `${limits} ${limits === 1 ? 'limit' : 'limits'}`
        return [
          [`${many}, new caller`, format(newCaller)],
          [`${many}, 1,000 admissions`, format(hotCaller)],
        ]
      })
      return { 'thousand instructions / commands / bytes': limiter, ...Object.fromEntries(cells) }
    }),
  )
}

/** The rows for callers with 1,000 admissions. */
function formatIdentities({ identities, instructions = [] }: Results): string | undefined {
  if (!identities) return undefined
  const hot = identities.filter(({ isNew }) => !isNew)
  return formatRows(
    hot.map(({ limiter, store, identities: count, calls, bytes, billed, rowsWritten }) => {
      const isRedis = store === 'Redis'
      const counted = isRedis && instructions.find((row) => row.limiter === limiter && row.identities === count)
      return {
        ...{ identities: count, limiter: isRedis ? limiter : `${limiter}, ${store}`, calls, bytes: Math.round(bytes) },
        ...{ 'billed commands': isRedis ? billed : '', 'rows written': isRedis ? '' : round(rowsWritten) },
        'thousand instructions of Redis': counted ? formatThousands(counted.hotCaller.instructions) : '',
      }
    }),
  )
}

function findPairs(pairs: readonly PairFigures[], own: string, other: string): PairFigures[] {
  return pairs.filter(({ names }) => names[0] === own && names[1] === other)
}

/** Gateways that are compared with the peer. */
function formatPairs({ gateway }: Results): string | undefined {
  if (!gateway) return undefined
  const peers: readonly string[] = [NAMES.upstash, NAMES.upstashLimits]
  const own = gateway.filter(({ names }) => peers.includes(names[1]))
  const rows = Map.groupBy(own, ({ names, callers }) => `${names[0]}, ${formatCallers(callers)}`)
  const columns = [...new Set(own.map(toColumn))].toSorted()
  return formatRows(
    [...rows].map(([name, all]) => {
      const cells = columns.map((column) => {
        const found = all.find((row) => toColumn(row) === column)
        return [column, found ? formatSpread(found.ofProcessor) : '']
      })
      return { '': name, ...Object.fromEntries(cells) }
    }),
  )
}

function toColumn({ latencyMs, fields }: PairFigures): string {
  return `${latencyMs} ms, ${fields} fields`
}

/** Gateways that are compared with one of ours. */
function formatFeatures({ gateway }: Results): string | undefined {
  const own = gateway?.filter(({ names }) => names[1].startsWith(NAMES.plain))
  if (!own) return undefined
  return formatRows(
    own.map(({ names, latencyMs, ofProcessor, firstUs, secondUs }) => ({
      ...{ gateway: names[0], 'divided by': names[1], 'Redis, ms away': latencyMs, ratio: formatSpread(ofProcessor) },
      ...{ 'its µs a request': formatSpread(firstUs), 'those of the other': formatSpread(secondUs) },
    })),
  )
}

function formatAdded({ added }: Results): string | undefined {
  if (!added) return undefined
  const rows = Map.groupBy(added, ({ variant, connections }) => [connections, variant].join())
  return formatRows(
    [...rows.values()].flatMap((own): Row[] => {
      const [first] = own
      if (!first) return []
      const cells = own.flatMap(({ latencyMs, p50Ms, p99Ms }) => [
        [`${latencyMs} ms: p50`, formatSpread(p50Ms)],
        [`${latencyMs} ms: p99`, formatSpread(p99Ms)],
      ])
      return [{ connections: first.connections, gateway: first.variant, ...Object.fromEntries(cells) }]
    }),
  )
}

function formatStarts({ start }: Results): string | undefined {
  if (!start) return undefined
  return formatRows(
    start.map(({ worker, processorMs, instructions, burstMs }) => ({
      worker,
      'start, ms': formatSpread(processorMs.start),
      'million instructions': instructions.start.toFixed(1),
      'first request, ms': formatSpread(processorMs.request),
      'its million instructions': instructions.request.toFixed(1),
      'first 256 at once, ms': formatSpread(burstMs),
    })),
  )
}

function formatWorst({ worst }: Results): string | undefined {
  if (!worst) return undefined
  return formatRows(
    [...Map.groupBy(worst, ({ gateway }) => gateway)].map(([gateway, [ordinary, ...found]]) => {
      const [most] = found.toSorted((a, b) => b.processorUs.median - a.processorUs.median)
      return {
        ...{ gateway, 'ordinary request, µs': ordinary ? formatSpread(ordinary.processorUs) : '' },
        ...{ 'worst, µs': most ? formatSpread(most.processorUs) : '' },
      }
    }),
  )
}

function formatRules({ rules }: Results): string | undefined {
  if (!rules) return undefined
  const [unknown, known] = rules.requests.map(({ addedUs }) => formatSpread(addedUs))
  return (
    `${formatCount(rules.entries)} rules take ${formatSpread(rules.readMs)} ms of processor time to read, once per version ` +
    `and isolate, and add ${unknown} µs to a request of an unknown caller, ${known} to one of a known caller.`
  )
}

function formatEvictions({ evictions }: Results): string | undefined {
  const texts = evictions?.map(({ entries, processorMs }) => {
    return `${formatCount(entries)} entries in ${formatSpread(processorMs)} ms of processor time`
  })
  return texts && `An object that was evicted reads its log again: ${texts.join(', ')}.`
}

function formatFloods({ floods }: Results): string | undefined {
  if (!floods) return undefined
  return formatRows(
    [...Map.groupBy(floods, ({ flood }) => flood)].map(([flood, own]) => {
      const find = (store: FloodFigures['store']) => own.find((row) => row.store === store)
      const { calls = 0, commands = 0 } = find('Redis') ?? {}
      const { calls: objectCalls = 0, rowsWritten = 0 } = find('objects') ?? {}
      return { flood, 'Redis calls': calls, commands, 'object calls': objectCalls, 'rows written': rowsWritten }
    }),
  )
}

function formatLeases({ leases }: Results): string | undefined {
  if (!leases) return undefined
  const rows = Map.groupBy(leases, ({ name, isRandom }) => `${name}, ${isRandom ? 'at random' : 'regularly'}`)
  return formatRows(
    [...rows].map(([limit, own]) => {
      const cells = own.map(({ roundTripMs, callsPerRequest }) => [`${roundTripMs} ms`, round(callsPerRequest)])
      return { 'limit, requests': limit, ...Object.fromEntries(cells) }
    }),
  )
}

function formatLibrary({ library }: Results): string | undefined {
  if (!library) return undefined
  const { inMemory, memory, waiting } = library
  const ofNode = Map.groupBy(inMemory, ({ node }) => node)
  const tables = [...ofNode].map(([node, figures]) => {
    const rows = formatDecisions(figures)
    return node === OWN_NODE.version ? rows : `Node ${node}:\n\n${rows}`
  })
  const bytes = memory.map(({ limiter, bytes }) => `${limiter} ${Math.round(bytes)}`).join(', ')
  const waits = waiting.map(({ throttle, worst, duration }) => ({
    ...{ throttle, 'fullest window ÷ limit': round(worst), 'time ÷ the shortest possible': formatSpread(duration) },
  }))
  return [
    ...tables,
    `Bytes of a caller with one request: ${bytes}.`,
    '80 calls at 20 in 500 ms, of which the second comes 450 ms after the first:',
    formatRows(waits),
  ].join('\n\n')
}

function formatDecisions(inMemory: LibraryFigures['inMemory']): string {
  const [own, ...others] = [...Map.groupBy(inMemory, ({ limiter }) => limiter)]
  const rows = others.flatMap(([other, figures]) =>
    figures.map(({ what, callers, decisions, us, ratio, coldRatio }, at): Row => {
      const each = decisions < 10 * callers ? `, ${decisions / callers} decisions each` : ''
      const ownUs = own?.[1][at]?.us
      return {
        'limits, callers': `${what}, ${formatCount(callers)}${each}`,
        ...{ Sluice: ownUs ? formatSpread(ownUs) : '', [other]: formatSpread(us), 'it ÷ Sluice': formatSpread(ratio) },
        'at first': formatSpread(coldRatio),
      }
    }),
  )
  return formatRows(rows)
}

function formatServe({ serve }: Results): string | undefined {
  if (!serve) return undefined
  return formatRows(
    serve.map(({ way, perSecond, p50Ms, p99Ms, processorUs }) => ({
      ...{ '': way === 'grpc' ? '`--grpc`' : '`/_sluice/decide`', 'µs of processor time': formatSpread(processorUs) },
      ...{
        'decisions a second': formatSpread(perSecond),
        'p50, ms': formatSpread(p50Ms),
        'p99, ms': formatSpread(p99Ms),
      },
    })),
  )
}

function formatDate(date: string): string {
  return new Date(date).toLocaleDateString('en-GB', { dateStyle: 'long', timeZone: 'UTC' })
}

function formatRange(values: readonly number[]): string {
  const ends = [Math.min(...values), Math.max(...values)].map((end) => end.toFixed(2))
  return [...new Set(ends)].join(' to ')
}

function formatCount(count: number): string {
  return count.toLocaleString('en')
}

function formatCallers(callers: number): string {
  return `${formatCount(callers)} ${callers === 1 ? 'caller' : 'callers'}`
}

function formatThousands(instructions: number): string {
  return formatCount(Math.round(instructions / 1_000))
}
