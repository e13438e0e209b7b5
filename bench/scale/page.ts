/** The figures of bench/results/scale.md, which is where the repository keeps them. */
import { markdownTable, type Row } from '../report/markdown.ts'
import { PRICES } from './prices.ts'
import { type CrossCheckCounts, type CrossCheckRow, decidesWell, type ScaleResults, type ScaleRow } from './results.ts'

/** Published limits: commands and requests a second. */
const REDIS_COMMANDS = 10_000
const OBJECT_REQUESTS = 1_000

/**
 * Writes parts of the page anew, and leaves the others as they are.
 * @param parts Markdown by name
 * @throws Error if the page lacks the place of a part
 */
export function renewPage(page: string, parts: ReadonlyMap<string, string>): string {
  const placed = new Set<string>()
  const renewed = page.replace(/(<!-- figures: (.*?) -->\n)(.*?)(\n<!-- end of figures -->)/gs, (_, ...groups) => {
    const [begin, name, kept, end] = groups as [string, string, string, string]
    placed.add(name)
    const part = parts.get(name)
    return `${begin}${part === undefined ? kept : `\n${part}\n`}${end}`
  })
  for (const name of parts.keys()) if (!placed.has(name)) throw new Error(`the page has no place for "${name}"`)
  return renewed
}

/** Formats all figures of a run. */
export function formatFigures(results: ScaleResults): Map<string, string> {
  const { rows, lookingAround, besideRedis, scaledDown, crossCheck } = results
  const tables = new Map([
    ['ends', ends(rows)],
    ['prices', Object.values(PRICES).map(({ of, dollars, read, source }) => ({ of, $: dollars, read, source }))],
    ['beside Redis', besideRedis.map((row) => ({ ...loadCell(row), ...figureCells(row) }))],
    ['looking around', lookingAround.map((row) => latencyRow(row, rows))],
    ['scaled down', scaledDown.map(figureCells)],
  ])
  for (const [name, own] of Map.groupBy(rows, ({ policies }) => policies)) {
    tables.set(
      name,
      own.map((row) => ({ ...loadCell(row), ...variantCells(row), ...figureCells(row) })),
    )
  }
  const parts = new Map([...tables].map(([name, table]) => [name, markdownTable(table)]))
  parts.set('run', runLine(results))
  return new Map([...parts, ...formatCrossCheck(crossCheck)])
}

/** Formats what runs in real time. */
export function formatCrossCheck(rows: readonly CrossCheckRow[]): Map<string, string> {
  return new Map([
    ['cross-check', markdownTable(rows.map(comparedRow))],
    ['off by', offLine(rows)],
  ])
}

function runLine({ machine, seed, rows }: ScaleResults): string {
  const requests = rows.reduce((sum, row) => sum + row.requests, 0)
  const worst = Math.max(...rows.map(({ fullest }) => fullest))
  return (
    `${machine.date}, seed ${seed}, Node ${machine.node}, ${machine.processors}: ${number(requests)} requests measured in ${rows.length} ` +
    `scenarios, ${number(Math.round(machine.seconds))} s of processor time. The fullest true window of any key held ${worst.toFixed(3)} of its limit.`
  )
}

function offLine(rows: readonly CrossCheckRow[]): string {
  const names = ['admitted', 'calls', 'written'] as const
  const off = rows.flatMap(({ real, simulated }) => names.map((name) => Math.abs(simulated[name] / real[name] - 1)))
  return `The simulation was off by ${(Math.max(...off) * 100).toFixed(1)}% at most.`
}

/** Where each store ends. */
function ends(rows: readonly ScaleRow[]): Row[] {
  const groups = Map.groupBy(rows, ({ policies, store, leases }) => [policies, store, leases].join())
  return [...groups.values()].map((own): Row => {
    const well = own.filter(decidesWell)
    const last = well.at(-1)
    const first = own[0] as ScaleRow
    const cells = { policies: first.policies, ...variantCells(first) }
    if (!last) return { ...cells, 'decides up to': '–', 'would be full at': '–', ...latencyAndPrice(first) }
    const isLast = last === own.at(-1) && last.perSecond >= 50_000
    return {
      ...cells,
      'decides up to': `${number(last.perSecond)}/s${isLast ? ' or more' : ''}`,
      'would be full at': fullAt(last),
      ...latencyAndPrice(last),
    }
  })
}

/** If each request cost what it costs at this load. */
function fullAt({ store, commands, sharedCalls }: ScaleRow): string {
  if (store === 'redis') return `${number(Math.round(REDIS_COMMANDS / commands))}/s`
  return sharedCalls === 0 ? '–' : `${number(Math.round(OBJECT_REQUESTS / sharedCalls))}/s`
}

function loadCell({ perSecond }: ScaleRow): Row {
  return { 'requests/s': number(perSecond) }
}

function variantCells({ store, leases }: Pick<ScaleRow, 'store' | 'leases'>): Row {
  return { store: store === 'redis' ? 'Redis' : 'objects', LEASES: leases }
}

function latencyAndPrice({ p50Ms, p99Ms, dollars }: ScaleRow): Row {
  return { 'p50 / p99, ms': `${whole(p50Ms)} / ${whole(p99Ms)}`, '$ a million': dollars.toFixed(2) }
}

function figureCells(row: ScaleRow): Row {
  const { requests, admitted, ideal, undecided, calls, commands, rowsWritten, oneIn } = row
  return {
    ...latencyAndPrice(row),
    calls: calls.toFixed(2),
    'commands or rows': (commands + rowsWritten).toFixed(2),
    'admitted ÷ ideal': (admitted / ideal).toFixed(3),
    undecided: `${((undecided / requests) * 100).toFixed(1)}%`,
    simulated: `${number(requests)}${oneIn === 1 ? '' : ` (1 in ${oneIn})`}`,
  }
}

function latencyRow(row: ScaleRow, rows: readonly ScaleRow[]): Row {
  const without = rows.find(({ policies, store, leases, perSecond }) => {
    return policies === row.policies && store === row.store && leases === row.leases && perSecond === row.perSecond
  })
  return {
    ...loadCell(row),
    'find no object': `${(row.made * 100).toFixed(0)}%`,
    'p50 / p99, ms, without': without ? `${whole(without.p50Ms)} / ${whole(without.p99Ms)}` : '–',
    with: `${whole(row.p50Ms)} / ${whole(row.p99Ms)}`,
    'undecided with': `${((row.undecided / row.requests) * 100).toFixed(1)}%`,
  }
}

function comparedRow({ store, leases, isShared, requests, real, simulated }: CrossCheckRow): Row {
  const cell = (name: keyof CrossCheckCounts) => `${number(real[name])} / ${number(simulated[name])}`
  return {
    limits: isShared ? 'token + global' : 'per token',
    ...variantCells({ store, leases }),
    requests: number(requests),
    admitted: cell('admitted'),
    undecided: cell('undecided'),
    calls: cell('calls'),
    'commands or rows': cell('written'),
  }
}

function number(value: number): string {
  return value.toLocaleString('en')
}

function whole(ms: number): string {
  return String(Math.round(ms))
}
