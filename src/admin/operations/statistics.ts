import * as v from 'valibot'
import { OptionError } from '../../config/option-error.ts'
import { integer } from '../../config/values.ts'
import { isShared } from '../../request/identity/source.ts'
import { SHADOW_STORE_COUNTS } from '../../statistics/count-names.ts'
import { LATENCY_BOUNDS_MS } from '../../statistics/latency.ts'
import type { Numbers } from '../../statistics/numbers.ts'
import { DEGRADATIONS, OUTCOMES, POLICY_OUTCOMES } from '../../statistics/outcomes.ts'
import { type RefusedCallers, readStatistics, type Statistics } from '../../statistics/read-statistics.ts'
import { KEPT_MS, PERIOD_MS } from '../../store/counters.ts'
import { inForce } from '../in-force.ts'
import { defineOperation, type Operated, OperationError } from '../operation.ts'

const units = v.pipe(v.number(), v.integer(), v.minValue(0))

const numbers = {
  requests: v.pipe(of(OUTCOMES), v.description('Each request once, by what became of it.')),
  degraded: v.pipe(of(DEGRADATIONS), v.description('Those that were decided without the store.')),
  upstream5xx: v.pipe(units, v.description('Those admitted that were answered with a status from 500.')),
  policies: v.array(
    v.strictObject({
      policy: v.string(),
      route: v.pipe(v.string(), v.description('The policy’s pattern; `*` if it applies everywhere.')),
      requests: of(POLICY_OUTCOMES),
    }),
  ),
  tiers: v.pipe(
    v.array(v.strictObject({ tier: v.string(), limited: units })),
    v.description('Requests that each has refused, the most first.'),
  ),
  store: v.strictObject({
    calls: units,
    failures: units,
    latency: v.strictObject({
      counts: v.pipe(v.array(units), v.description('Of each bucket of `latencyBoundsMs`, and of what took longer.')),
      sumMs: v.number(),
    }),
  }),
  shadow: v.pipe(
    v.strictObject({ requests: units, refusedByBoth: units, refusedByShadowOnly: units, refusedByForceOnly: units }),
    v.description('Requests that policies in shadow have decided beside those in force.'),
  ),
  saved: v.pipe(
    v.strictObject({ denyCache: units, leases: units }),
    v.description('Decisions that the store was not asked for.'),
  ),
  leases: v.strictObject({ permits: units, lapsed: units }),
  shadowStore: v.pipe(
    of(SHADOW_STORE_COUNTS),
    v.description('With STORE_SHADOW: what the store would have decided that is charged beside.'),
  ),
}
const refused = v.strictObject({
  callers: v.pipe(
    v.array(
      v.strictObject({
        policy: v.string(),
        digest: v.string(),
        atMost: units,
        atLeast: units,
        isEveryone: v.pipe(v.boolean(), v.description('It is no caller: the policy counts all of them together.')),
        label: v.optional(v.pipe(v.string(), v.description('What the caller itself says: escape it.'))),
      }),
    ),
    v.description('Who was refused most, at most 50.'),
  ),
  othersAtMost: v.pipe(units, v.description('How often any other caller may have been refused.')),
})

const BY = { minute: 'minute', hour: 'hour' } as const

export const statistics = defineOperation({
  method: 'GET',
  path: '/statistics',
  summary: 'What all isolates have counted',
  description:
    'By minute for the last two hours, or by hour for the last 30 days. What isolates count arrives every ten seconds.',
  query: v.strictObject({
    by: v.optional(v.picklist(Object.keys(BY) as (keyof typeof BY)[]), 'minute'),
    periods: v.optional(v.pipe(integer(1, 720), v.description('How many, the one that is not over among them.')), 60),
  }),
  answer: v.strictObject({
    resolution: v.picklist(['minute', 'hour']),
    periodMs: units,
    fromMs: v.number(),
    toMs: v.number(),
    latencyBoundsMs: v.array(v.number()),
    periods: v.pipe(
      v.array(v.strictObject({ startMs: v.number(), ...numbers, refused })),
      v.description('Those in which something was counted, the earliest first.'),
    ),
    total: v.strictObject(numbers),
    refused,
  }),
  async run(operated, { query: { by, periods } }) {
    const { counters, now } = operated
    if (!counters) {
      throw new OperationError({
        status: 404,
        title: 'Not Found',
        detail: 'Nothing is counted: STATISTICS = "on" turns that on.',
      })
    }
    const toMs = now() + 1
    const fromMs = Math.max(toMs - KEPT_MS[by], toMs - periods * PERIOD_MS[by])
    return answerOf(await readStatistics(counters, { resolution: by, fromMs, toMs }), await sharedPolicies(operated))
  },
})

/** Names of the policies that count for all callers together. */
async function sharedPolicies(operated: Operated): Promise<ReadonlySet<string>> {
  const { policies } = await inForce(operated).catch((error: unknown) => {
    // What was counted can be told, whatever stands in the rules.
    if (error instanceof OptionError) return operated.config
    throw error
  })
  return new Set(policies.filter(({ by }) => isShared(by)).map(({ name }) => name))
}

function answerOf({ periods, total, refused, ...rest }: Statistics, shared: ReadonlySet<string>) {
  return {
    ...rest,
    latencyBoundsMs: [...LATENCY_BOUNDS_MS],
    periods: periods.map(({ startMs, refused, ...numbers }) => ({
      startMs,
      ...copied(numbers),
      refused: told(refused, shared),
    })),
    total: copied(total),
    refused: told(refused, shared),
  }
}

function copied(numbers: Numbers) {
  const { requests, degraded, upstream5xx, policies, tiers, shadow, store, saved, leases, shadowStore } = numbers

  return {
    requests: { ...requests },
    degraded: { ...degraded },
    upstream5xx,
    policies: policies.map(({ policy, route, requests }) => ({ policy, route, requests: { ...requests } })),
    tiers: tiers.map(({ tier, limited }) => ({ tier, limited })),
    shadow: { ...shadow },
    store: { ...store, latency: { ...store.latency, counts: [...store.latency.counts] } },
    saved: { ...saved },
    leases: { ...leases },
    shadowStore: { ...shadowStore },
  }
}

function told({ callers, othersAtMost }: RefusedCallers, shared: ReadonlySet<string>) {
  return { callers: callers.map((caller) => ({ ...caller, isEveryone: shared.has(caller.policy) })), othersAtMost }
}

function of<const Names extends readonly string[]>(names: Names) {
  const entries = Object.fromEntries(names.map((name) => [name, units]))
  return v.strictObject(entries as Record<Names[number], typeof units>)
}
