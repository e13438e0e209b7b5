/** Callers who spend what they have at four points of presence: no window above its limit, and no refusal with room. */
import type { Part } from '../../support/parts.ts'
import { defineScenario, type Options, type Verdict } from '../kit/scenario.ts'
import { formatTable, type TableRow } from '../kit/table.ts'
import { findLimitViolations, type LimitCheck, toLimitRows } from './limits.ts'
import { startOverObjects } from './over-objects.ts'
import { startOverRedis } from './over-redis.ts'
import { LEASED_POLICIES, POLICIES, type Policies, stretchWindows } from './policies.ts'
import { type Outcome, sendTraffic } from './traffic.ts'

export interface ExactnessOptions extends Options {
  readonly store: string
  readonly requests: number
  readonly callers: number
  /** LEASES. Redis then knows when permits were taken, and no longer when they were spent. Limits and callers differ. */
  readonly leases: string
  /** All objects are ended at once every so many seconds; 0 for never. */
  readonly abortEvery: number
  /** Windows are so many times as long, for a machine too slow to fill shorter ones. */
  readonly stretch: number
}

/** A site whose store tells what it has decided. */
export interface RecordedSite extends Part {
  readonly urls: readonly URL[]
  /** True once the traffic is enough for a verdict; if left out, it ends with its requests. */
  readonly hasSeenEnough?: (outcomes: readonly Outcome[]) => boolean
  /** Compares the answers with what the store has recorded. */
  read(outcomes: readonly Outcome[]): Promise<Verdict & { limits: readonly LimitCheck[]; rows: readonly TableRow[] }>
}

const findPolicies = ({ leases, stretch }: ExactnessOptions): Policies =>
  stretchWindows(leases === 'off' ? POLICIES : LEASED_POLICIES, stretch)
/** With more callers, an answer would take longer than a quarter of a lease. */
const MAX_LEASED_CALLERS = 12

export const EXACTNESS = defineScenario({
  long: [
    { store: 'redis', requests: 100_000, callers: 60, leases: 'off', abortEvery: 0, stretch: 1 },
  ] as ExactnessOptions[],
  maxMinutes: 10,
  start(options, run) {
    const { store } = options
    if (store !== 'redis' && store !== 'durable-object') throw new Error('--store: redis or durable-object')
    return (store === 'redis' ? startOverRedis : startOverObjects)(options, findPolicies(options), run)
  },

  load({ urls, hasSeenEnough }, options, run) {
    const { requests, leases } = options
    const callers = leases === 'off' ? options.callers : Math.min(options.callers, MAX_LEASED_CALLERS)
    const traffic = { gateways: urls, requests, callers, policies: findPolicies(options), run }
    return sendTraffic({ ...traffic, ...(hasSeenEnough && { hasSeenEnough }) })
  },

  async read(site, outcomes) {
    return { outcomes, ...(await site.read(outcomes)) }
  },

  judge({ outcomes, limits, wrong, missing }, { store, leases }) {
    const [admitted, refused] = [200, 429].map(
      (status) => outcomes.filter((outcome) => outcome.status === status).length,
    )
    // Leases and objects say themselves what they must have come to.
    const isPlain = store === 'redis' && leases === 'off'
    const isMixed = Math.min(admitted ?? 0, refused ?? 0) > outcomes.length / 20
    const emptiest = Math.min(...limits.map(({ fullest }) => fullest))
    const unchecked = limits.filter(({ byClients }) => byClients.windows !== admitted)
    return {
      wrong: [
        ...findLimitViolations(limits),
        ...unchecked.map(
          ({ policy, byClients }) => `${policy}: ${byClients.windows} windows of ${admitted} admissions`,
        ),
        ...wrong,
      ],
      missing: [
        ...(isMixed || !isPlain ? [] : [`${admitted} admitted and ${refused} refused of ${outcomes.length}`]),
        ...(emptiest > 0.5 || !isPlain ? [] : [`one limit was never filled beyond ${emptiest}`]),
        ...missing,
      ],
    }
  },

  format({ outcomes, limits, rows }) {
    const seconds =
      (Math.max(...outcomes.slice(-100).map(({ decidedByMs }) => decidedByMs)) - (outcomes[0]?.sentMs ?? 0)) / 1_000
    const rate = `${(outcomes.length / seconds).toFixed(0)} a second`
    return formatTable([['requests', outcomes.length, rate], ...rows, ...toLimitRows(limits)])
  },
})
