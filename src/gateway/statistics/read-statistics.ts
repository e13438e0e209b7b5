/** Reads the sums of a range of time. */
import * as v from 'valibot'
import {
  addTo,
  findPeriodStart,
  PERIOD_MS,
  type Period,
  type Resolution,
  type StatisticsStore,
} from '../../core/store/counters.ts'
import { NO_SKETCH, type Sketch } from '../../core/store/sketches.ts'
import { describe, units } from '../api/schema.ts'
import { LATENCY_BOUNDS_MS, REFUSED_CALLERS, REFUSING_RULES, summarize, summaryEntries } from './metrics.ts'
import { readRecent, recentSchema } from './recent.ts'

export interface StatisticsQuery {
  /** Minutes reach back four hours, hours 60 days. */
  readonly resolution: Resolution
  /** Periods that overlap with the time from here to before `toMs` are answered. */
  readonly fromMs: number
  readonly toMs: number
}

const refusedCaller = v.strictObject({
  policy: v.string(),
  digest: v.string(),
  max: units,
  min: units,
  shared: describe(v.boolean(), 'It is no caller: the policy counts all of them together.'),
  label: v.optional(describe(v.string(), 'What the caller itself says: escape it.')),
})

const refusedCallers = v.strictObject({
  callers: describe(v.array(refusedCaller), 'Those refused most, at most 50.'),
  maxOthers: describe(units, 'How often any other caller may have been refused.'),
})

const refusingRules = describe(
  v.array(v.strictObject({ target: v.string(), max: units, min: units })),
  'Blocks that refused most requests, at most 50, by whom they are about.',
)

const range = { periodMs: units, fromMs: v.number(), toMs: v.number() }
const PERIODS_TEXT = 'Those in which something was counted, the earliest first.'
const period = v.strictObject({ startMs: v.number(), ...summaryEntries, refused: refusedCallers, rules: refusingRules })

export const statisticsSchema = v.strictObject({
  resolution: v.picklist(['minute', 'hour']),
  ...range,
  latencyBoundsMs: v.array(v.number()),
  periods: describe(v.array(period), PERIODS_TEXT),
  total: v.strictObject(summaryEntries),
  refused: refusedCallers,
  rules: refusingRules,
  recent: recentSchema,
})

export type Statistics = v.InferOutput<typeof statisticsSchema>

const refusalsOfPolicy = v.strictObject({ policy: v.string(), min: units, max: units })
const refusals = v.strictObject({
  startMs: v.number(),
  policies: describe(v.array(refusalsOfPolicy), 'Policies that are known to have refused it.'),
  maxOthers: describe(units, 'How often any other policy may have refused it.'),
})

/** When a caller was refused, as far as that is stored. */
export const refusalsSchema = v.strictObject({
  ...range,
  periods: describe(v.array(refusals), PERIODS_TEXT),
  recent: recentSchema,
})

/** @param shared names of the policies that count for all callers together */
export async function readStatistics(
  counters: Pick<StatisticsStore, 'read'>,
  query: StatisticsQuery,
  shared?: ReadonlySet<string>,
): Promise<Statistics> {
  const { periods, ...range } = await readPeriods(counters, query)
  const total = { counts: new Map<string, number>(), sketches: new Map<string, Sketch>() }
  for (const period of periods) addTo(total, period)
  return {
    resolution: query.resolution,
    ...range,
    latencyBoundsMs: [...LATENCY_BOUNDS_MS],
    periods: periods.map((period) => ({
      startMs: period.startMs,
      ...summarize(period.counts),
      refused: readRefusedCallers(period, shared),
      rules: readRefusingRules(period),
    })),
    total: summarize(total.counts),
    refused: readRefusedCallers(total, shared),
    rules: readRefusingRules(total),
    recent: [...readRecent(total)],
  }
}

/** @param digests of one caller */
export async function readRefusals(
  counters: Pick<StatisticsStore, 'read'>,
  digests: ReadonlySet<string>,
  query: StatisticsQuery,
): Promise<v.InferOutput<typeof refusalsSchema>> {
  const { periods, ...range } = await readPeriods(counters, query)
  const refusals = periods.map((period) => {
    const { callers, maxOthers } = readRefusedCallers(period)
    const own = callers.filter(({ digest }) => digests.has(digest))
    return { startMs: period.startMs, policies: own.map(({ policy, min, max }) => ({ policy, min, max })), maxOthers }
  })
  return { ...range, periods: refusals, recent: periods.toReversed().flatMap((period) => readRecent(period, digests)) }
}

/** Reads who was refused most in a period. @param shared names of the policies that count for all callers together */
export function readRefusedCallers(
  { sketches }: Pick<Period, 'sketches'>,
  shared?: ReadonlySet<string>,
): v.InferOutput<typeof refusedCallers> {
  const { items, floor } = sketches.get(REFUSED_CALLERS) ?? NO_SKETCH
  const callers = items.map(({ name, count, over, label }) => {
    const [, policy = '', digest = ''] = /^(.*?):(.*)$/.exec(name) ?? []
    const isShared = shared?.has(policy) ?? false
    return { policy, digest, max: count, min: count - over, shared: isShared, ...(label !== undefined && { label }) }
  })
  return { callers, maxOthers: floor }
}

function readRefusingRules({ sketches }: Pick<Period, 'sketches'>): v.InferOutput<typeof refusingRules> {
  const { items } = sketches.get(REFUSING_RULES) ?? NO_SKETCH
  return items.map(({ name, count, over }) => ({ target: decodeURIComponent(name), max: count, min: count - over }))
}

/** Reads the whole periods that hold what is queried. */
async function readPeriods(counters: Pick<StatisticsStore, 'read'>, { resolution, fromMs, toMs }: StatisticsQuery) {
  const periodMs = PERIOD_MS[resolution]
  return {
    periodMs,
    fromMs: findPeriodStart(resolution, fromMs),
    toMs: findPeriodStart(resolution, toMs - 1) + periodMs,
    periods: await counters.read(resolution, fromMs, toMs),
  }
}
