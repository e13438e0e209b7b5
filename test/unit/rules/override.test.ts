/** What an override makes of the limits of a policy. */
import { expect, test } from 'vitest'
import type { RequestPolicy } from '../../../src/core/model/policy.ts'
import { resolveOverride } from '../../../src/gateway/rules/override.ts'
import { readRulePolicies } from '../../../src/gateway/rules/rule-policies.ts'

const ENV = { UPSTREAM_URL: 'https://api.example.com' }

test.each([
  [1.5, [7, 16]],
  [0.3, [1, 3]],
  [0.01, [1, 1]],
  [1, [5, 11]],
  [1.99, [9, 21]],
])('resolveOverride() rounds limits times %d down, to 1 at least', (multiplier, expected) => {
  const [policy] = readRulePolicies(ENV, [{ name: 'api', limits: '5/1s, 11/1m' }]) as [RequestPolicy]
  const override = { id: 'o', target: { kind: 'identity' }, multiplier } as never
  const resolved = resolveOverride(override, policy, policy.limits)
  expect(resolved).toMatchObject({ limits: expected.map((limit) => ({ limit })) })
})
