import { expect, test } from 'vitest'
import { NO_RULES } from '../../../src/gateway/rules/document.ts'
import {
  checkRules,
  diffPolicies,
  readDeployedTables,
  readRulePolicies,
} from '../../../src/gateway/rules/rule-policies.ts'

const LOGIN = { name: 'login', limits: '5/1m', by: 'ip' }

test('diffPolicies() reports for each policy what is different, key by key', () => {
  const before = [LOGIN, { name: 'old', limits: '1/1s' }]
  const after = [
    { name: 'new', limits: '2/1s' },
    { ...LOGIN, limits: '7/1m', cost: 2 },
  ]
  expect(diffPolicies(before, after)).toEqual([
    {
      policy: 'login',
      change: 'changed',
      keys: [
        { key: 'limits', before: '"5/1m"', after: '"7/1m"' },
        { key: 'cost', before: null, after: '2' },
      ],
    },
    { policy: 'old', change: 'removed', keys: [{ key: 'limits', before: '"1/1s"', after: null }] },
    { policy: 'new', change: 'added', keys: [{ key: 'limits', before: null, after: '"2/1s"' }] },
  ])
  expect(diffPolicies(before, before.toReversed())).toEqual([])
})

test('readRulePolicies() and checkRules() take limits by the calendar', () => {
  const plan = { name: 'plan', algorithm: 'quota', limits: '9/month', time_zone: 'Europe/Berlin' }
  const env = { UPSTREAM_URL: 'https://api.example.com' }
  expect(readRulePolicies(env, [plan])[0]?.limits).toMatchObject([{ name: 'plan-month', limit: 9 }])
  const override = { id: 'o', target: { kind: 'identity' }, limits: { plan: '90/month' } }
  const rules = { ...NO_RULES, overrides: [override] } as never
  expect(() => checkRules(rules, { ...env, POLICIES: [plan] })).not.toThrow()
  expect(() => checkRules(rules, { ...env, POLICIES: [{ ...plan, limits: '9/week' }] })).toThrow(
    'overrides[0].limits.plan: expected the same windows as those of the policy, got "90/month"',
  )
})

test('readDeployedTables() takes POLICIES as Wrangler passes it, as JSON, and left out', () => {
  for (const POLICIES of [[LOGIN], JSON.stringify([LOGIN])]) expect(readDeployedTables({ POLICIES })).toEqual([LOGIN])
  expect(readDeployedTables({})).toEqual([])
})
