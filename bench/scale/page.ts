/** The figures of bench/results/scale.md, which is where the repository keeps them. */
import { formatRows, type Row } from '../report/markdown.ts'
import { PRICES } from './prices.ts'
import { type CrossCheckCounts, type CrossCheckRow, canKeepUp, type ScaleResults, type ScaleRow } from './results.ts'

/** Published limits: commands and requests a second. */
const REDIS_COMMANDS = 10_000
const OBJECT_REQUESTS = 1_000

export const BY_SHARDS = 'several databases'

/** Formats all figures of a run. */
export function formatFigures(results: ScaleResults): Map<string, string> {
  const { rows, lookingAround, nearRedis, byIsolates, byShards, scaledDown } = results
  const tables = new Map([
    ['ends', listEnds(rows)],
    ['prices', Object.values(PRICES).map(({ of, dollars, read, source }) => ({ of, $: dollars, read, source }))],
    ['near Redis', nearRedis.map((row) => ({ ...toLoadCell(row), ...toFigureCells(row) }))],
    [
      'isolates',
      byIsolates.map((row) => ({
        policies: row.policies,
        ...toVariantCells(row),
        ...toLoadCell(row),
        isolates: formatNumber(row.isolates),
        ...toFigureCells(row),
      })),
    ],
    [
      BY_SHARDS,
      byShards.map((row) => ({
        policies: row.policies,
        LEASES: row.leases,
        databases: formatNumber(row.shards),
        ...toLoadCell(row),
        ...toFigureCells(row),
      })),
    ],
    ['looking around', lookingAround.map((row) => toLatencyRow(row, rows))],
    ['scaled down', scaledDown.map(toFigureCells)],
  ])
  for (const [name, own] of Map.groupBy(rows, ({ policies }) => policies)) {
    tables.set(
      name,
      own.map((row) => ({ ...toLoadCell(row), ...toVariantCells(row), ...toFigureCells(row) })),
    )
  }
  const parts = new Map([...tables].map(([name, table]) => [name, formatRows(table)]))
  return parts.set('run', formatRun(results))
}

/** Formats the figures of a run of some limits, and puts their ends between those that the page has of others. */
export function formatLimits(results: ScaleResults, page: string): Map<string, string> {
  const figures = formatFigures(results)
  const names = new Set(results.rows.map(({ policies }) => policies))
  const ends = listEnds(results.rows)
  const rows = readRows(page, 'ends').map((row) => {
    return ends.find((end) => ['policies', 'store', 'LEASES'].every((name) => end[name] === row[name])) ?? row
  })
  const { byShards } = results
  if (byShards.length > 0) {
    return new Map([[BY_SHARDS, `${figures.get(BY_SHARDS)}\n\n${formatRun({ ...results, rows: byShards })}`]])
  }
  const tables = [...names].map((name) => [name, `${figures.get(name)}\n\n${figures.get('run')}`] as const)
  return new Map([...tables, ['ends', formatRows(rows)]])
}

/** Reads a table of the page. */
function readRows(page: string, part: string): Row[] {
  const [, table = ''] = new RegExp(`<!-- figures: ${part} -->\\n\\n(.*?)\\n\\n<!-- end`, 's').exec(page) ?? []
  const [names = [], , ...rows] = table.split('\n').map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
  return rows.map((cells) => Object.fromEntries(names.map((name, at) => [name, cells[at] ?? ''])))
}

/** Formats what runs in real time. */
export function formatCrossCheck(
  rows: readonly CrossCheckRow[],
  machine: ScaleResults['machine'],
): Map<string, string> {
  return new Map([
    ['cross-check', formatRows(rows.map(toComparedRow))],
    ['off by', `${formatOff(rows)} (${formatMachine(machine)})`],
  ])
}

function formatRun({ machine, seed, rows }: ScaleResults): string {
  const requests = rows.reduce((sum, row) => sum + row.requests, 0)
  const worst = Math.max(...rows.map(({ fullest }) => fullest))
  return (
    `${formatMachine(machine)}, seed ${seed}: ${formatNumber(requests)} requests measured in ${rows.length} ` +
    `scenarios, ${formatNumber(Math.round(machine.seconds))} s of processor time. The fullest true window of any key held ${worst.toFixed(3)} of its limit.`
  )
}

function formatMachine({ date, node, processors }: ScaleResults['machine']): string {
  return `${date}, Node ${node}, ${processors}`
}

function formatOff(rows: readonly CrossCheckRow[]): string {
  const names = ['admitted', 'calls', 'written'] as const
  const off = rows.flatMap(({ real, simulated }) => names.map((name) => Math.abs(simulated[name] / real[name] - 1)))
  return `The simulation was off by ${(Math.max(...off) * 100).toFixed(1)}% at most.`
}

/** Lists up to which load each store decides well. */
function listEnds(rows: readonly ScaleRow[]): Row[] {
  const groups = Map.groupBy(rows, ({ policies, store, leases }) => [policies, store, leases].join())
  return [...groups.values()].map((own): Row => {
    const well = own.filter(canKeepUp)
    const last = well.at(-1)
    const first = own[0] as ScaleRow
    const cells = { policies: first.policies, ...toVariantCells(first) }
    if (!last) return { ...cells, 'decides up to': '–', 'would be full at': '–', ...toLatencyAndPrice(first) }
    const isLast = last === own.at(-1) && last.perSecond >= 10_000
    return {
      ...cells,
      'decides up to': `${formatNumber(last.perSecond)}/s${isLast ? ' or more' : ''}`,
      'would be full at': formatFullAt(last),
      ...toLatencyAndPrice(last),
    }
  })
}

/** If each request cost what it costs at this load. */
function formatFullAt({ store, commands, sharedCalls }: ScaleRow): string {
  if (store === 'redis') return `${formatNumber(Math.round(REDIS_COMMANDS / commands))}/s`
  return sharedCalls === 0 ? '–' : `${formatNumber(Math.round(OBJECT_REQUESTS / sharedCalls))}/s`
}

function toLoadCell({ perSecond }: ScaleRow): Row {
  return { 'requests/s': formatNumber(perSecond) }
}

function toVariantCells({ store, leases }: Pick<ScaleRow, 'store' | 'leases'>): Row {
  return { store: store === 'redis' ? 'Redis' : 'objects', LEASES: leases }
}

function toLatencyAndPrice({ p50Ms, p99Ms, dollars }: ScaleRow): Row {
  return { 'p50 / p99, ms': `${formatWhole(p50Ms)} / ${formatWhole(p99Ms)}`, '$ a million': dollars.toFixed(2) }
}

function toFigureCells(row: ScaleRow): Row {
  const { requests, admitted, ideal, undecided, calls, commands, rowsWritten, oneIn } = row
  return {
    ...toLatencyAndPrice(row),
    calls: calls.toFixed(2),
    'commands or rows': (commands + rowsWritten).toFixed(2),
    'admitted ÷ ideal': (admitted / ideal).toFixed(3),
    undecided: `${((undecided / requests) * 100).toFixed(1)}%`,
    simulated: `${formatNumber(requests)}${oneIn === 1 ? '' : ` (1 in ${oneIn})`}`,
  }
}

function toLatencyRow(row: ScaleRow, rows: readonly ScaleRow[]): Row {
  const without = rows.find(({ policies, store, leases, perSecond }) => {
    return policies === row.policies && store === row.store && leases === row.leases && perSecond === row.perSecond
  })
  return {
    ...toLoadCell(row),
    'find no object': `${(row.made * 100).toFixed(0)}%`,
    'p50 / p99, ms, without': without ? `${formatWhole(without.p50Ms)} / ${formatWhole(without.p99Ms)}` : '–',
    with: `${formatWhole(row.p50Ms)} / ${formatWhole(row.p99Ms)}`,
    'undecided with': `${((row.undecided / row.requests) * 100).toFixed(1)}%`,
  }
}

function toComparedRow({ store, leases, isShared, requests, real, simulated }: CrossCheckRow): Row {
  const cell = (name: keyof CrossCheckCounts) => `${formatNumber(real[name])} / ${formatNumber(simulated[name])}`
  return {
    limits: isShared ? 'token + global' : 'per token',
    ...toVariantCells({ store, leases }),
    requests: formatNumber(requests),
    admitted: cell('admitted'),
    undecided: cell('undecided'),
    calls: cell('calls'),
    'commands or rows': cell('written'),
  }
}

function formatNumber(value: number): string {
  return value.toLocaleString('en')
}

function formatWhole(ms: number): string {
  return String(Math.round(ms))
}
