import * as v from 'valibot'
import { readUsage } from '../../request/caller/usage-of-rules.ts'
import { caller, rulesOf } from '../caller-schema.ts'
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
    v.description('When the block ends, milliseconds since the Unix epoch; null if the caller is not blocked.'),
  ),
})

export const usage = defineOperation({
  method: 'POST',
  path: '/usage',
  summary: 'What a caller has used, without spending',
  body: v.strictObject({ caller }),
  answer: v.strictObject({
    nowMs: v.pipe(v.number(), v.description('The store’s clock, milliseconds since the Unix epoch.')),
    tiers: v.array(tier),
    leftOut: v.pipe(leftOut, v.description('Policies that say nothing of this caller, and why.')),
  }),
  async run({ config, store }, body) {
    const asked = await rulesOf(config, body.caller)
    const { nowMs, tiers } = await readUsage(store, asked.rules)
    return { nowMs, tiers: [...tiers], leftOut: asked.leftOut.map(({ policy, why }) => ({ policy: policy.name, why })) }
  },
})
