import { expect, test } from 'vitest'
import type { Policy } from '../../src/policy/policy.ts'
import { examples } from '../../tools/dev-examples.ts'

const policyOf = (limits: number[], match?: string): Pick<Policy, 'match' | 'tiers'> => ({
  tiers: limits.map((limit) => ({ name: `${limit}`, limit, windowMs: 1_000 })),
  match: match === undefined ? undefined : [],
})

test.for([
  ['the smallest limit', [policyOf([10, 7]), policyOf([9])], 7],
  ['what applies everywhere', [policyOf([10]), policyOf([3], 'POST /login')], 10],
  ['anything, if nothing applies everywhere', [policyOf([3], 'POST /login')], 3],
  ['a bound', [policyOf([1_000_000])], 1_000],
  ['a bound, if there is no tier', [policyOf([])], 1_000],
] as const)('examples() go past %s', ([, policies, limit]) => {
  const limitExample = examples('http://host', policies).find(({ shows }) => shows === 'limit')
  expect(limitExample?.command).toContain(`'http://host/?[1-${limit + 2}]'`)
})
