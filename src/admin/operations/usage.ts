import * as v from 'valibot'
import type { CallerRule } from '../../request/caller/rules-of-caller.ts'
import { readUsage, type TierState } from '../../request/caller/rules-of-caller.ts'
import { isShared } from '../../request/identity/source.ts'
import { ordersOfCaller } from '../../rules/orders-of-caller.ts'
import { asked, callerOf, leftOut, rulesOf, toldLeftOut } from '../caller-schema.ts'
import { inForce } from '../in-force.ts'
import { defineOperation } from '../operation.ts'

const units = v.pipe(v.number(), v.integer(), v.minValue(0))

const tier = v.strictObject({
  policy: v.string(),
  tier: v.pipe(v.string(), v.description('As in response fields.')),
  route: v.pipe(v.nullable(v.string()), v.description('The pattern that it is about, if the policy counts by route.')),
  key: v.pipe(v.string(), v.description('In the store; the caller’s digest stands in its braces.')),
  limit: v.pipe(units, v.description('Units admitted in the window; what a bucket holds; slots.')),
  configuredLimit: v.pipe(units, v.description('The same, as the policy has it for all.')),
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
  isEveryone: v.pipe(
    v.boolean(),
    v.description('It is counted for all callers together: a reset of this one leaves it as it is.'),
  ),
})

export const usage = defineOperation({
  method: 'POST',
  path: '/usage',
  summary: 'What a caller has used, without spending',
  body: asked,
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
    const found = await rulesOf({ ...config, policies }, body)
    const known = { caller: callerOf(body.caller), digest: body.caller.digest }
    const { blocked, ordered } = await ordersOfCaller(rules, known, found.rules, config, now())
    const rulesInForce = found.rules.map((each, at) => ({ ...each, rule: ordered[at]?.rule ?? each.rule }))
    const { nowMs, tiers } = await readUsage(store, rulesInForce)
    const shared = new Set(policies.filter(({ by }) => isShared(by)).map(({ name }) => name))
    const isUnlimited = (key: string) =>
      ordered.some(({ rule, isUnlimited }) => rule.key === key && isUnlimited === true)
    return {
      nowMs,
      blocked: blocked
        ? { status: blocked.status, reason: blocked.reason ?? null, untilMs: blocked.untilMs ?? null }
        : null,
      tiers: tiers.map((tier) => ({
        ...tier,
        configuredLimit: configuredLimit(tier, found.rules),
        isUnlimited: isUnlimited(tier.key),
        isEveryone: shared.has(tier.policy),
        ...(isUnlimited(tier.key) && { retryAfterMs: 0 }),
      })),
      leftOut: toldLeftOut(found),
    }
  },
})

/** That of a tier before the rules gave another one. */
function configuredLimit({ key, windowMs, limit }: TierState, asked: readonly CallerRule[]): number {
  const before = asked.find(({ rule }) => rule.key === key)?.rule
  return before?.burst ?? before?.tiers.find((tier) => tier.windowMs === windowMs)?.limit ?? limit
}
