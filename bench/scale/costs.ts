/** Computes what the stores cost a month, by load and plan, from what bench/results/scale.md says of a request. */
import { formatRows, type Row } from '../report/markdown.ts'
import { FIXED_PLANS, PAY_AS_YOU_GO, PRICES, WORKERS_PAID } from './prices.ts'

const MONTH_S = 2_628_000
const LOADS = [1, 10, 50, 100, 1_000]
/** Traffic of one decision over REST, headers included. */
const KB_A_DECISION = 1
/** Peak load as a multiple of the average. */
const PEAK = 2
const COMMANDS_PER_S = 10_000

/**
 * Redis commands that an isolate which is always busy sends to poll, as counted in `test/integration`; those about rules
 * are sent for all isolates of a place.
 */
const POLLING = { rules: { commands: 2, everyS: 5 }, statistics: { commands: 7 + 3 / 30, everyS: 20 } }
const PLACES = 300
const ISOLATES = [10, 100, 1_200, 10_000]

/** Means of a request. */
interface Request {
  readonly calls: number
  /** Commands of Redis, or rows written. */
  readonly units: number
}

/** @param scale text of bench/results/scale.md @returns tables of docs/costs.md, by name */
export function formatCosts(scale: string): Map<string, string> {
  return new Map([
    ...['per token', 'token + global'].map((policies) => [policies, formatRows(listMonths(scale, policies))] as const),
    ['polling', formatRows(ISOLATES.map(toPollingRow))],
  ])
}

function listMonths(scale: string, policies: string): Row[] {
  return LOADS.map((perSecond): Row => {
    const [redis, objects] = ['Redis', 'objects'].map((store) => findRequest(scale, policies, store, perSecond))
    const millions = (perSecond * MONTH_S) / 1e6
    const format = (dollars: number | undefined) =>
      dollars === undefined ? '–' : `${formatDollars(dollars)} (${(dollars / millions).toFixed(2)})`
    return {
      'requests/s': perSecond.toLocaleString('en'),
      'millions a month': millions < 10 ? millions.toFixed(1) : Math.round(millions).toLocaleString('en'),
      'Redis, pay as you go': format(redis && computePayAsYouGo(redis, millions)),
      'Redis, fixed plan': format(redis && findFixedPlan(redis, perSecond)?.dollars),
      objects: format(objects && computeObjects(objects, millions)),
    }
  })
}

/**
 * Finds what a request takes at a load, with leases; at a lower one than was simulated, as at the lowest.
 * @returns undefined if that store decides fewer
 */
function findRequest(scale: string, policies: string, store: string, perSecond: number): Request | undefined {
  const [, table = ''] =
    scale.match(new RegExp(`<!-- figures: ${policies.replace('+', '\\+')} -->(.*?)<!-- end`, 's')) ?? []
  const rows = table.split('\n').map((line) => line.split('|').map((cell) => cell.trim()))
  const own = rows.filter((cells) => cells[2] === store && cells[3] === 'auto')
  const row = own.find(([, load = '']) => Number(load.replaceAll(',', '')) >= perSecond)
  if (!row) throw new Error(`the page lacks ${policies}, ${store}, ${perSecond}/s`)
  const [calls, units, undecided] = [row[6], row[7], row[9]].map((cell) => Number.parseFloat(cell ?? ''))
  return (undecided as number) > 1 ? undefined : { calls: calls as number, units: units as number }
}

function computePayAsYouGo({ units }: Request, millions: number): number {
  const trafficGb = millions * KB_A_DECISION
  const more = Math.max(0, trafficGb - PAY_AS_YOU_GO.freeTrafficGb) * PAY_AS_YOU_GO.dollarsPerGb
  return millions * units * 10 * PRICES.commands.dollars + more
}

/** Finds the cheapest plan of one database, since a limit lives in one. */
function findFixedPlan({ units }: Request, perSecond: number) {
  const trafficGb = (perSecond * MONTH_S * KB_A_DECISION) / 1e6
  return FIXED_PLANS.find((plan) => plan.commandsPerS >= PEAK * perSecond * units && plan.trafficGb >= trafficGb)
}

function computeObjects({ calls, units }: Request, millions: number): number {
  const more = (count: number, included: number) => Math.max(0, count * millions - included)
  return (
    WORKERS_PAID.dollars +
    more(calls, WORKERS_PAID.calls) * PRICES.calls.dollars +
    more(units, WORKERS_PAID.rowsWritten) * PRICES.rowsWritten.dollars
  )
}

function toPollingRow(isolates: number): Row {
  const perSecond = (pollers: number, { commands, everyS }: { commands: number; everyS: number }) =>
    (pollers * commands) / everyS
  const rules = perSecond(Math.min(isolates, PLACES), POLLING.rules)
  const statistics = perSecond(isolates, POLLING.statistics)
  const both = rules + statistics
  const monthly = (both * MONTH_S * PRICES.commands.dollars) / 1e5
  return {
    'busy isolates': isolates.toLocaleString('en'),
    'RULES, commands/s': formatRate(rules),
    'STATISTICS, commands/s': formatRate(statistics),
    'of a database': `${((both / COMMANDS_PER_S) * 100).toFixed(both < 100 ? 1 : 0)}%`,
    'pay as you go, a month': formatDollars(monthly),
  }
}

function formatRate(rate: number): string {
  return rate < 100 ? rate.toFixed(1) : Math.round(rate).toLocaleString('en')
}

function formatDollars(dollars: number): string {
  return `$${dollars < 10 ? dollars.toFixed(1) : Math.round(dollars).toLocaleString('en')}`
}
