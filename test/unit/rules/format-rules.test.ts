import { expect, test } from 'vitest'
import { formatBlock, formatOverride } from '../../../src/gateway/rules/format-rules.ts'
import { formatTarget } from '../../../src/gateway/rules/target.ts'

test.each([
  [{ by: 'token', digest: 'y2d8-eDNvChqTFSHsSUP2Q' }, 'token y2d8-eDNvChqTFSHsSUP2Q'],
  [{ digest: 'y2d8-eDNvChqTFSHsSUP2Q' }, 'y2d8-eDNvChqTFSHsSUP2Q'],
  [{ by: 'header:x-tenant', value: 'acme-*' }, 'header:x-tenant acme-*'],
  [{ cidr: '203.0.113.0/24' }, '203.0.113.0/24'],
  [{ country: 'DE' }, 'country DE'],
  [{ asn: 64500 }, 'AS64500'],
])('formatTarget() of %j', (target, words) => {
  expect(formatTarget(target)).toBe(words)
})

test.each([
  [{ limits: { default: '50/1s, 1000/1m', login: '20/1m' } }, 'default 50/1s, 1000/1m; login 20/1m'],
  [{ multiplier: 2.5 }, 'limits × 2.5'],
  [{ multiplier: 2, policies: ['a', 'b'] }, 'limits × 2 of a, b'],
  [{ unlimited: true }, 'unlimited'],
  [{ unlimited: true, policies: ['a'] }, 'unlimited of a'],
] as const)('limitsInWords() of %j', (override, words) => {
  expect(formatOverride(override)).toBe(words)
})

test('formatBlock() says what is answered', () => {
  expect([formatBlock({}), formatBlock({ status: 404 })]).toEqual(['answered 403', 'answered 404'])
})
