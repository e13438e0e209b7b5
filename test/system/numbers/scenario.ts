/** Statistics that equal what clients saw, over either store, from two points of presence. */
import { createDigest } from '../../../src/core/runtime/digest.ts'
import type { StatisticsStore } from '../../../src/core/store/counters.ts'
import { summarize } from '../../../src/gateway/statistics/metrics.ts'
import { OUTCOMES } from '../../../src/gateway/statistics/outcomes.ts'
import { readStatistics, type Statistics } from '../../../src/gateway/statistics/read-statistics.ts'
import { PLANTED } from '../../setup/secret-watch.ts'
import { defineScenario } from '../kit/scenario.ts'
import { formatTable } from '../kit/table.ts'
import { IDENTITY_SECRET, type Site, startSite } from './site.ts'
import { KINDS, type Kind, type Seen, sendTraffic } from './traffic.ts'

/** A number that clients have seen, and what the statistics say. */
interface Compared {
  readonly what: string
  readonly seen: number
  readonly counted: number
}

/** Flushes come 20 seconds after what they hold, or after the next request. */
const PATIENCE_MS = 60_000

/** The store is unavailable for a tenth of the requests. */
export const NUMBERS = defineScenario({
  long: [{ store: 'redis', requests: 50_000 }],
  maxMinutes: 10,
  start: ({ store }, { bundle }) => startSite(bundle, store),

  async load({ gateways }, { requests }, run) {
    const sendPart = (count: number, seedBy: number, only?: Kind) =>
      sendTraffic(gateways.urls, Math.round(count), run, seedBy, only)
    const fromMs = Date.now()
    // One caller sends a quarter of them: more than its limit.
    const seen = [...(await sendPart(150, 5, 'login')), ...(await sendPart(0.5 * requests, 0))]
    await gateways.withoutStore(async () => {
      seen.push(...(await sendPart(0.1 * requests, 1)))
      // Of the requests that cannot be served, some more.
      seen.push(...(await sendPart(20, 4, 'closed')))
    })
    seen.push(...(await sendPart(0.1 * requests, 2, 'overload')))
    seen.push(...(await sendPart(requests - seen.length, 3)))
    return { seen, fromMs }
  },

  async read(site, { seen, fromMs }) {
    const { counters } = site
    await waitUntilCounted(counters, seen)
    const query = { resolution: 'minute', fromMs, toMs: Date.now() + 60_000 } as const
    const statistics = await readStatistics(counters, query)
    const hours = await readStatistics(counters, { ...query, resolution: 'hour' })
    const totals = summarize(await counters.readTotals())
    const all = sumAll(statistics.total.requests)
    const sums = [
      { what: 'by hour', seen: all, counted: sumAll(hours.total.requests) },
      { what: 'in all', seen: all, counted: sumAll(totals.requests) },
    ]
    return {
      compared: [...compare(seen, statistics), ...sums],
      miscounted: findMiscounted(seen, statistics),
      leaks: await findLeaks(site),
      statistics,
    }
  },

  judge({ compared, miscounted, leaks, statistics: { total, rules } }) {
    const { requests, degraded, store } = total
    const { admitted, limited, unidentified, bad_request, blocked, unavailable } = requests
    const outcomes = { admitted, limited, unidentified, bad_request, blocked, unavailable }
    const counts = { ...outcomes, local: degraded.local, calls: store.calls, failures: store.failures }
    const timed = store.latency.counts.reduce((sum, count) => sum + count, 0)
    const expected = [
      ...compared,
      // All blocks are those of one rule.
      ...rules.map(({ max, min }) => ({ what: 'blocks of a rule', seen: blocked, counted: min === max ? max : -1 })),
      { what: 'rules that block', seen: 1, counted: rules.length },
      { what: 'calls that took time', seen: store.calls - store.failures, counted: timed },
    ]
    const differing = expected.filter(({ seen, counted }) => seen !== counted)
    return {
      wrong: [
        ...differing.map(({ what, seen, counted }) => `${what}: clients saw ${seen}, counted are ${counted}`),
        ...miscounted.map((caller) => `refused callers: ${caller} is not within its bounds`),
        ...leaks.map((leak) => `leaked: ${leak}`),
      ],
      missing: Object.entries(counts).flatMap(([name, count]) => (count === 0 ? [`no ${name}`] : [])),
    }
  },

  format: ({ compared }) => formatTable(compared.map(({ what, seen, counted }) => [what, counted, `seen ${seen}`])),
})

/** How a request was answered may be sent after how it was decided. */
async function waitUntilCounted(counters: StatisticsStore, seen: readonly Seen[]): Promise<void> {
  const failed = seen.filter(({ isUpstream5xx }) => isUpstream5xx).length
  const untilMs = Date.now() + PATIENCE_MS
  while (Date.now() < untilMs) {
    const { requests, upstream5xx } = summarize(await counters.readTotals())
    if (sumAll(requests) >= seen.length && upstream5xx >= failed) return
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
}

function compare(seen: readonly Seen[], { total }: Statistics): Compared[] {
  const count = (is: (one: Seen) => boolean) => seen.filter(is).length
  const outcomes = OUTCOMES.map((outcome) => ({
    what: outcome,
    seen: count((one) => one.outcome === outcome),
    counted: total.requests[outcome],
  }))
  const degraded = Object.entries(total.degraded).map(([how, counted]) => ({
    what: `degraded: ${how}`,
    seen: count((one) => one.degraded === how),
    counted,
  }))
  const limitNames = new Set(seen.flatMap(({ violated }) => violated))
  const limits = [...limitNames].map((name) => ({
    what: `limit ${name}`,
    seen: count(({ violated }) => violated.includes(name)),
    counted: total.limits.find((each) => each.name === name)?.refusals ?? 0,
  }))
  const policyNames = new Set(Object.values(KINDS).flatMap(({ policies }) => policies ?? []))
  const policies = [...policyNames].map((name) => ({
    what: `policy ${name}`,
    seen: count(({ kind }) => (KINDS[kind].policies as readonly string[] | undefined)?.includes(name) ?? false),
    counted: total.policies
      .filter(({ policy }) => policy === name)
      .reduce((sum, { requests }) => sum + sumAll(requests), 0),
  }))
  const upstream = { what: 'upstream 5xx', seen: count((one) => one.isUpstream5xx), counted: total.upstream5xx }
  return [...outcomes, ...degraded, upstream, ...policies, ...limits]
}

/** Compares the callers whom the policy `items` has refused most. */
function findMiscounted(seen: readonly Seen[], { refused }: Statistics): string[] {
  const digest = createDigest(IDENTITY_SECRET)
  const really = new Map<string, number>()
  for (const { violated, token } of seen) {
    if (token === undefined || !violated.some((limit) => limit.startsWith('items-'))) continue
    const caller = digest(['token', token])
    really.set(caller, (really.get(caller) ?? 0) + 1)
  }
  const counted = refused.callers.filter(({ policy }) => policy === 'items')
  const wrong = counted.filter(({ digest, min, max }) => {
    const times = really.get(digest) ?? 0
    return times < min || times > max
  })
  const missing = [...really].filter(([caller, times]) => {
    return times > refused.maxOthers && !counted.some(({ digest }) => digest === caller)
  })
  return [...wrong.map(({ digest }) => digest), ...missing.map(([caller]) => caller)]
}

async function findLeaks({ listKeys, gateways, counters }: Site): Promise<string[]> {
  const periods = await Promise.all([
    counters.read('minute', 0, Date.now() + 60_000),
    counters.read('hour', 0, Date.now() + 60_000),
  ])
  const counted = periods.flat().map(({ counts, sketches }) => JSON.stringify([...counts, ...sketches]))
  const kept = [...gateways.log, ...(await listKeys()), ...counted]
  const secrets = new RegExp(`.{0,60}(?:${PLANTED}|203\\.0\\.113\\.|198\\.51\\.100\\.7).{0,20}`)
  return kept.flatMap((text) => secrets.exec(text)?.[0] ?? [])
}

function sumAll(numbers: Readonly<Record<string, number>>): number {
  return Object.values(numbers).reduce((sum, number) => sum + number, 0)
}
