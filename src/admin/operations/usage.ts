import * as v from 'valibot'
import { readUsage } from '../../request/caller/usage-of-rules.ts'
import { ordersOfCaller } from '../../rules/orders-of-caller.ts'
import { caller, callerOf, rulesOf } from '../caller-schema.ts'
import { inForce } from '../in-force.ts'
import { defineOperation } from '../operation.ts'

export const leftOut = v.array(v.strictObject({ policy: v.string(), why: v.string() }))

const units = v.pipe(v.number(), v.integer(), v.minValue(0))

const tier = v.strictObject({
  policy: v.string(),
  tier: v.pipe(v.string(), v.description('As in response fields.')),
  route: v.pipe(v.nullable(v.string()), v.description('The pattern that it is about, if the policy counts by route.')),
  key: v.pipe(v.string(), v.description('In the store; the caller’s digest stands in its braces.')),
  limit: v.pipe(units, v.description('Units admitted in the window; what a bucket holds; slots.')),
  windowMs: units,
  used: units,
  left: units,
  resetMs: v.pipe(units, v.description('Milliseconds until more than that is left; 0 if all is.')),
  retryAfterMs: v.pipe(units, v.description('Milliseconds until a request is admitted; 0 if it is now.')),
  blockedUntilMs: v.pipe(
    v.nullable(v.number()),
    v.description(
      'Until when the policy refuses the caller, whatever is left: milliseconds since the Unix epoch; null if it does not.',
    ),
  ),
  isUnlimited: v.pipe(v.boolean(), v.description('It is counted, but refuses nothing.')),
})

export const usage = defineOperation({
  method: 'POST',
  path: '/usage',
  summary: 'What a caller has used, without spending',
  body: v.strictObject({ caller }),
  answer: v.strictObject({
    nowMs: v.pipe(v.number(), v.description('The store’s clock, milliseconds since the Unix epoch.')),
    blocked: v.pipe(
      v.nullable(
        v.strictObject({ status: v.number(), reason: v.nullable(v.string()), untilMs: v.nullable(v.number()) }),
      ),
      v.description('It is not let in, by the rules.'),
    ),
    tiers: v.pipe(v.array(tier), v.description('With the limits that hold for it.')),
    leftOut: v.pipe(leftOut, v.description('Policies that say nothing of this caller, and why.')),
  }),
  async run(operated, { body }) {
    const { config, store, now } = operated
    const { rules, policies } = await inForce(operated)
    const asked = await rulesOf({ ...config, policies }, body.caller)
    const known = { caller: callerOf(body.caller), digest: body.caller.digest }
    const { blocked, ordered } = await ordersOfCaller(rules, known, asked.rules, config, now())
    const rulesInForce = asked.rules.map((each, at) => ({ ...each, rule: ordered[at]?.rule ?? each.rule }))
    const { nowMs, tiers } = await readUsage(store, rulesInForce)
    const isUnlimited = (key: string) =>
      ordered.some(({ rule, isUnlimited }) => rule.key === key && isUnlimited === true)
    return {
      nowMs,
      blocked: blocked
        ? { status: blocked.status, reason: blocked.reason ?? null, untilMs: blocked.untilMs ?? null }
        : null,
      tiers: tiers.map((each) => ({ ...each, isUnlimited: isUnlimited(each.key) })),
      leftOut: asked.leftOut.map(({ policy, why }) => ({ policy: policy.name, why })),
    }
  },
})
