import { describe, expect, test } from 'vitest'
import { OptionError } from '../../../src/core/options/option-error.ts'
import { createDigest } from '../../../src/core/runtime/digest.ts'
import { NO_RULES, parseRules, readRules } from '../../../src/gateway/rules/document.ts'
import { createRuleTarget } from '../../../src/gateway/rules/target.ts'

const DIGEST = createDigest(undefined)(['token', 'abc'])

function readMessage(input: unknown): string {
  try {
    readRules(input)
  } catch (error) {
    if (error instanceof OptionError) return error.message
    throw error
  }
  throw new Error('expected an OptionError')
}

test('readRules() reads all that a document can say, and writes it in one way', () => {
  const rules = readRules({
    blocks: [
      { by: 'token', digest: DIGEST, status: 451, reason: 'leaked', until: '2026-12-24T00:00Z' },
      { digest: DIGEST },
      { cidr: '203.0.113.0/24' },
      { cidr: '2001:DB8:0::/32' },
      { country: 't1' },
      { asn: '64500' },
    ],
    allows: [{ cidr: '198.51.100.7/32' }, { by: 'ip', digest: DIGEST }],
    overrides: [
      { by: 'header:X-Tenant', value: 'acme-*', multiplier: 2, policies: ['default'] },
      { by: 'header:X-Tenant', digest: DIGEST, limits: { default: '600/1m' } },
      { digest: DIGEST, unlimited: true },
    ],
    policies: [{ name: 'login', limits: '5/1m', match: ['POST /login'] }],
  })
  expect(rules.blocks.map(({ cidr, country, asn, until }) => cidr ?? country ?? asn ?? until)).toEqual([
    '2026-12-24T00:00:00Z',
    undefined,
    ...['203.0.113.0/24', '2001:db8::/32', 'T1', 64500],
  ])
  expect(rules.overrides[0]).toEqual({ by: 'header:x-tenant', value: 'acme-*', multiplier: 2, policies: ['default'] })
  expect(parseRules(JSON.stringify(rules))).toEqual(rules)
  expect(parseRules('')).toEqual(NO_RULES)
})

const CALLER = 'one of digest (with by, or alone), by and value'

test.each([
  [[], 'rules: expected a table, got []'],
  [{ block: [] }, 'rules.block: unknown field; expected one of blocks, allows, overrides, policies'],
  [{ blocks: {} }, 'rules.blocks: expected a list of tables, got {}'],
  [{ blocks: [{}] }, `rules.blocks[0]: expected ${CALLER}, cidr, country, asn, got {}`],
  [{ blocks: [{ by: 'token' }] }, `rules.blocks[0]: expected ${CALLER}, cidr, country, asn, got {"by":"token"}`],
  [
    { allows: [{ cidr: '10.0.0.0/8' }, { cidr: '10.0.0.0/8', by: 'ip' }] },
    `rules.allows[1]: expected ${CALLER}, cidr, got {"by":"ip","cidr":"10.0.0.0/8"}`,
  ],
  [
    { allows: [{ country: 'DE' }] },
    /^rules\.allows\[0\]\.country: unknown field; expected one of by, digest, value, cidr/,
  ],
  [{ blocks: [{ by: 'route', digest: DIGEST }] }, /^rules\.blocks\[0\]\.by: expected "token", "ip", "header:<name>"/],
  [{ blocks: [{ by: 'token', digest: 'abc' }] }, /^rules\.blocks\[0\]\.digest: expected the digest of a caller/],
  [
    { blocks: [{ by: 'token', value: 'a*' }] },
    'rules.blocks[0].by: expected "header:<name>" or "claim:<name or /pointer>", got "token"',
  ],
  [{ blocks: [{ by: 'header:a', value: 'ab' }] }, /^rules\.blocks\[0\]\.value: expected a value with one "\*"/],
  [{ blocks: [{ by: 'header:a', value: 'a*b*' }] }, /^rules\.blocks\[0\]\.value: expected a value with one "\*"/],
  [{ blocks: [{ country: 'Germany' }] }, /^rules\.blocks\[0\]\.country: expected a country by its two characters/],
  [{ blocks: [{ asn: 0 }] }, 'rules.blocks[0].asn: expected an integer from 1 to 4294967295, got 0'],
  [
    { blocks: [{ asn: 1, status: 200 }] },
    'rules.blocks[0].status: expected a status from 400 to 599, but not 401 or 407, got 200',
  ],
  [
    { blocks: [{ asn: 1, status: 401 }] },
    'rules.blocks[0].status: expected a status from 400 to 599, but not 401 or 407, got 401',
  ],
  [
    { blocks: [{ asn: 1, until: 'tomorrow' }] },
    'rules.blocks[0].until: expected a moment in UTC, such as "2026-12-24T00:00:00Z", got "tomorrow"',
  ],
  [{ blocks: [{ asn: 1, until: '2026-13-01T00:00Z' }] }, /^rules\.blocks\[0\]\.until/],
  [
    { allows: [{ by: 'header:x-tenant', value: 'a, b*' }] },
    'rules.allows[0].value: expected a value without ",", got "a, b*"',
  ],
  [{ blocks: [{ asn: 1, until: '2027-02-30T00:00:00Z' }] }, /^rules\.blocks\[0\]\.until: expected a moment/],
  [{ blocks: [{ asn: 1, reason: 'a\nb' }] }, /^rules\.blocks\[0\]\.reason: expected a line of up to 200 characters/],
  [{ overrides: [{ digest: DIGEST }] }, 'rules.overrides[0]: expected one of limits, multiplier, unlimited, got {}'],
  [
    { overrides: [{ digest: DIGEST, multiplier: 2, unlimited: true }] },
    /^rules\.overrides\[0\]: expected one of limits/,
  ],
  [
    { overrides: [{ digest: DIGEST, multiplier: 0 }] },
    'rules.overrides[0].multiplier: expected a number above 0 and at most 1000000, got 0',
  ],
  [{ overrides: [{ digest: DIGEST, limits: {} }] }, 'rules.overrides[0].limits: expected limits of a policy, got {}'],
  [{ overrides: [{ digest: DIGEST, limits: { a: '1/1m' }, policies: ['a'] }] }, /^rules\.overrides\[0\]\.policies/],
  [
    { policies: [{ name: 'a', limits: '1/1m', algorithm: 'leaky' }] },
    /^rules\.policies\[0\]\.algorithm: expected "sliding-window" or/,
  ],
  [{ policies: [] }, /^rules\.policies: expected a list of tables/],
  [{ policies: '[{"name":"a"}]' }, /^rules\.policies: expected a list of tables, as in POLICIES/],
])('readRules() names the place, the value and what was expected: %j', (input, message) => {
  expect(readMessage(input)).toMatch(message)
})

test.each([
  ...['203.0.113.7/24', '203.0.113.0', '0.0.0.0/0', '::/0', '203.0.113/24', '010.0.0.0/8', '203.0.113.0/33'],
  ...['203.0.113.0/024x', '::ffff:203.0.113.0/120', 'fe80::1%eth0/64', '2001:db8::1/64', ''],
])('readRules() refuses what is no network in one way only: %s', (cidr) => {
  expect(readMessage({ blocks: [{ cidr }] })).toMatch(
    /^rules\.blocks\[0\]\.cidr: expected a network without bits beyond/,
  )
})

describe('createRuleTarget()', () => {
  const options = { ipv6Prefix: 64, identitySecret: 'a secret of 16 characters' }
  const digest = createDigest(options.identitySecret)
  const request = new Request('https://api.test/?key=k1', {
    headers: { Authorization: 'Bearer abc', 'CF-Connecting-IP': '2001:db8::5', 'X-Tenant': 'acme', Cookie: 'sid=s1' },
  })

  test.each([
    ['token', 'token', ['token', 'abc']],
    ['ip', 'ip', ['ip', '2001:db8:0:0::/64']],
    ['header:X-Tenant', 'header:x-tenant', ['header:x-tenant', 'acme']],
    ['query:key', 'query:key', ['query:key', 'k1']],
    ['cookie:sid', 'cookie:sid', ['cookie:sid', 's1']],
  ])('names a caller by %s as the Worker does', async (by, name, parts) => {
    expect(await createRuleTarget(by, request, options)).toEqual({ by: name, digest: digest(parts) })
  })

  test.each(['token', 'ip', 'header:x-tenant', 'route', 'json:/user', 'nonsense'])(
    'finds nothing in a request without %s',
    async (by) => {
      expect(await createRuleTarget(by, new Request('https://api.test/'), options)).toBeUndefined()
    },
  )
})
