import { describe, expect, test } from 'vitest'
import type { RequestCharge } from '../../src/core/model/charge.ts'
import type { RequestPolicy } from '../../src/core/model/policy.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { TextLru } from '../../src/core/runtime/lru.ts'
import { readRules } from '../../src/gateway/rules/document.ts'
import { RuleIndex } from '../../src/gateway/rules/rule-index.ts'
import { formatTarget } from '../../src/gateway/rules/target.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import type { MatchedRules } from '../../src/http/request/request-limiter.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const LATER = '2026-01-01T00:00:01Z'
const OPTIONS = { ipv6Prefix: 64, identitySecret: undefined }
const NO_CONTEXT = { waitUntil() {} }
const digest = createDigest(undefined)

interface Caller {
  readonly token?: string
  readonly ip?: string
  readonly tenant?: string
  readonly other?: string
  readonly cf?: unknown
}

function findRequest({ token, ip, tenant, other, cf }: Caller) {
  const headers = new Headers()
  if (token !== undefined) headers.set('Authorization', `Bearer ${token}`)
  if (ip !== undefined) headers.set('CF-Connecting-IP', ip)
  if (tenant !== undefined) headers.set('X-Tenant', tenant)
  if (other !== undefined) headers.set('X-Other', other)
  const request = new Request('https://api.test/things', { headers })
  const { method, url, body } = request
  return { method, url, headers, body, clone: () => request.clone(), ...(cf !== undefined && { cf }) }
}

function ordersFor(rules: object, caller: Caller, nowMs = NOW_MS) {
  return new RuleIndex(readRules(rules), OPTIONS).match(findRequest(caller), nowMs, { waitUntil() {} })
}

const policies = loadConfig({
  UPSTREAM_URL: 'https://api.test',
  RATE_LIMITS: '10/1s, 100/1m',
  POLICIES: [
    { name: 'bucket', limits: '60/1m', algorithm: 'token-bucket', burst: 6, by: 'ip' },
    { name: 'exports', limits: '4', algorithm: 'concurrency' },
    { name: 'shared', limits: '1000/1m', by: 'global', reserve: { critical: 0.2 } },
    { name: 'dear', limits: '50/1m', cost: 'header:x-cost', max_cost: 20 },
  ],
}).policies

function createCharge(name: string, identity = ''): RequestCharge {
  const policy = policies.find((each) => each.name === name) as RequestPolicy
  const { algorithm, limits, burst, reserved } = policy
  return {
    ...{ policy, digest: identity, key: `sluice:${name}:w:{${identity}}`, algorithm, limits, cost: 1, mode: 'enforce' },
    reserved: reserved.sheddable,
    ...(burst !== undefined && { burst }),
  }
}

/** The rule in place of one policy's. */
async function applyRules(finding: ReturnType<typeof ordersFor>, name: string, identity?: string) {
  const found = await finding
  if (!found || 'outcome' in found) throw new Error(`expected orders, got ${JSON.stringify(found)}`)
  const ordered = await found.apply([createCharge(name, identity)])
  if ('outcome' in ordered) throw new Error('blocked')
  return ordered[0]
}

describe('blocks', () => {
  const block = { outcome: 'blocked', status: 403 }
  const createBlock = (target: object) => ({ ...block, rule: formatTarget(target) })

  test.each<[string, object, Caller]>([
    ['token', { by: 'token', digest: digest(['token', 'abc']) }, { token: 'abc' }],
    ['address', { by: 'ip', digest: digest(['ip', '203.0.113.7']) }, { ip: '203.0.113.7' }],
    ['IPv6 site', { by: 'ip', digest: digest(['ip', '2001:db8:0:1::/64']) }, { ip: '2001:db8:0:1::abcd' }],
    ['field', { by: 'header:x-tenant', digest: digest(['header:x-tenant', 'acme']) }, { tenant: 'acme' }],
    ['part of a field', { by: 'header:x-tenant', value: 'ac*e' }, { tenant: 'acme' }],
    ['network', { cidr: '203.0.113.0/24' }, { ip: '203.0.113.200' }],
    ['single address', { cidr: '203.0.113.9/32' }, { ip: '203.0.113.9' }],
    ['network of IPv6', { cidr: '2001:db8:8000::/33' }, { ip: '2001:db8:ffff::1' }],
    ['network, written as IPv6', { cidr: '203.0.113.0/24' }, { ip: '::ffff:203.0.113.1' }],
    ['country', { country: 'DE' }, { cf: { country: 'DE' } }],
    ['network of an operator', { asn: 64500 }, { cf: { asn: 64500 } }],
  ])('name a caller by its %s, and nobody else', async (_, target, caller) => {
    const others: Caller = { token: 'abd', ip: '203.0.114.1', tenant: 'axe', cf: { country: 'FR', asn: 64501 } }
    expect(await ordersFor({ blocks: [target] }, caller)).toEqual(createBlock(target))
    expect(await ordersFor({ blocks: [target] }, others)).toBeUndefined()
    expect(await ordersFor({ blocks: [target] }, {})).toBeUndefined()
    expect(await ordersFor({ blocks: [target] }, { ip: '2001:db8:7fff::1' })).toBeUndefined()
  })

  describe('hold for callers that send something alongside the value by which they are known', () => {
    const known = (by: string, value: string) => ({ by, digest: digest([by, value]) })
    const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl'

    test.each<[string, object, Record<string, string>, string?]>([
      ['token and junk', known('token', 'abc'), { Authorization: 'Bearer abc junk' }],
      ['token after a comma', known('token', 'abc'), { Authorization: 'Bearer x, Bearer abc' }],
      ['token before many', known('token', 'abc'), { Authorization: `Bearer abc${' x'.repeat(5_000)}` }],
      ['token after a signature', known('token', jwt), { Authorization: `Bearer ${jwt}.x` }],
      ['field twice', known('header:x-tenant', 'acme'), { 'X-Tenant': 'x, acme' }],
      ['field like a value', { by: 'header:x-tenant', value: 'acme-*' }, { 'X-Tenant': 'acme-1,x' }],
      ['field like a value with commas', { by: 'header:x-tenant', value: 'a (b, c) *' }, { 'X-Tenant': 'a (b, c) d' }],
      ['parameter twice', known('query:key', 'abc'), {}, 'key=x&key=abc'],
      ['parameter by another name', known('query:key', 'abc'), {}, 'key[]=abc'],
      ['cookie twice', known('cookie:sid', 'abc'), { Cookie: 'sid=abc; sid=x' }],
    ])('%s', async (_, who, fields, query = '') => {
      const request = new Request(`https://api.test/things?${query}`)
      const { method, url, body } = request
      // A Request would drop some of these.
      const received = { method, url, headers: new Headers(fields), body, clone: () => request.clone() }
      const found = (rules: object) => new RuleIndex(readRules(rules), OPTIONS).match(received, NOW_MS, NO_CONTEXT)
      expect(await found({ blocks: [who] })).toEqual(createBlock(who))
      if (!JSON.stringify(who).includes(',')) expect(await found({ allows: [who] })).toBeUndefined()
    })

    test('by a digest alone, where a policy counts by that value', async () => {
      const rules = { blocks: [{ digest: digest(['token', 'abc']) }] }
      const found = (await ordersFor(rules, { token: 'abc junk', ip: '203.0.113.7' })) as MatchedRules
      const byAddress = digest(['ip', '203.0.113.7'])
      expect(await found.apply([createCharge('default', byAddress)])).toEqual(
        createBlock({ digest: digest(['token', 'abc']) }),
      )
      expect(await found.apply([createCharge('bucket', byAddress)])).toHaveLength(1)
      const others = (await ordersFor(rules, { token: 'x junk' })) as MatchedRules
      expect(await others.apply([createCharge('default', byAddress)])).toHaveLength(1)
    })

    test('but not for others who do', async () => {
      const rules = { blocks: [known('token', 'abc'), known('query:key', 'abc')] }
      expect(await ordersFor(rules, { token: 'x y, z' })).toBeUndefined()
    })
  })

  test('say with which status, why and until when', async () => {
    const rules = { blocks: [{ asn: 1, status: 451, reason: 'the law', until: LATER }] }
    const untilMs = NOW_MS + 1_000
    expect(await ordersFor(rules, { cf: { asn: 1 } })).toEqual({
      outcome: 'blocked',
      status: 451,
      reason: 'the law',
      untilMs,
      rule: 'AS1',
    })
    expect(await ordersFor(rules, { cf: { asn: 1 } }, untilMs - 1)).toMatchObject(
      block.outcome === 'blocked' ? { untilMs } : {},
    )
    expect(await ordersFor(rules, { cf: { asn: 1 } }, untilMs)).toBeUndefined()
  })

  test('hold as long as the longest of them', async () => {
    const blocks = [{ asn: 1, until: LATER }, { country: 'DE' }, { cidr: '10.0.0.0/8', until: LATER, status: 404 }]
    const caller = { ip: '10.0.0.1', cf: { asn: 1, country: 'DE' } }
    expect(await ordersFor({ blocks }, caller)).toEqual(createBlock({ country: 'DE' }))
    // A smaller network's is over, a larger one's is not.
    const nested = [{ cidr: '10.1.0.0/16', until: LATER }, { cidr: '10.0.0.0/8' }]
    expect(await ordersFor({ blocks: nested }, { ip: '10.1.0.1' }, NOW_MS + 2_000)).toEqual(
      createBlock({ cidr: '10.0.0.0/8' }),
    )
  })

  test('do not hold for those who are allowed', async () => {
    const rules = { blocks: [{ cidr: '10.0.0.0/8' }], allows: [{ cidr: '10.1.0.0/16' }] }
    expect(await ordersFor(rules, { ip: '10.2.0.1' })).toEqual(createBlock({ cidr: '10.0.0.0/8' }))
    expect(await ordersFor(rules, { ip: '10.1.0.1' })).toMatchObject({ isAllowed: true })
  })

  test('by a digest alone hold wherever a policy counts by what it is made of', async () => {
    const found = await ordersFor({ blocks: [{ digest: digest(['token', 'abc']) }] }, { token: 'xyz' })
    if (!found || 'outcome' in found) throw new Error('expected orders')
    expect(
      await found.apply([createCharge('default', 'other'), createCharge('bucket', digest(['token', 'abc']))]),
    ).toEqual(createBlock({ digest: digest(['token', 'abc']) }))
    expect(await found.apply([createCharge('default', 'other')])).toEqual([createCharge('default', 'other')])
  })

  test('are not fooled by values that are no address', async () => {
    for (const ip of [
      '',
      ' ',
      '203.0.113',
      '203.0.113.7.1',
      '0313.0.113.7',
      'unknown',
      '::ffff:999.1.1.1',
      'x'.repeat(5_000),
    ])
      expect(await ordersFor({ blocks: [{ cidr: '203.0.113.0/24' }, { cidr: '::/1' }] }, { ip })).toBeUndefined()
  })
})

test('allows let a caller be counted, but never limited', async () => {
  const found = ordersFor({ allows: [{ by: 'token', digest: digest(['token', 'abc']) }] }, { token: 'abc' })
  expect(await found).toMatchObject({ isAllowed: true })
  const charge = createCharge('default')
  expect(await applyRules(found, 'default')).toEqual({ ...charge, mode: 'shadow', isUnlimited: true })
})

describe('overrides', () => {
  const by = { by: 'token', digest: digest(['token', 'abc']) }
  const override = (said: object) => ordersFor({ overrides: [{ ...by, ...said }] }, { token: 'abc' })
  const findLimits = async (found: ReturnType<typeof ordersFor>, name: string) =>
    (await applyRules(found, name))?.limits.map(({ limit, windowMs }) => [limit, windowMs])

  test('give other limits for a policy, and leave the others', async () => {
    const found = override({ limits: { default: '20/1s, 500/1m' } })
    expect(await findLimits(found, 'default')).toEqual([
      [20, 1_000],
      [500, 60_000],
    ])
    expect(await applyRules(found, 'dear')).toEqual(createCharge('dear'))
  })

  test('give a multiple of all limits, or of those named', async () => {
    expect(await findLimits(override({ multiplier: 2.5 }), 'default')).toEqual([
      [25, 1_000],
      [250, 60_000],
    ])
    expect(await findLimits(override({ multiplier: 0.5, policies: ['dear'] }), 'dear')).toEqual([[25, 60_000]])
    expect(await applyRules(override({ multiplier: 2, policies: ['dear'] }), 'default')).toEqual(
      createCharge('default'),
    )
    // Never so little that nothing fits.
    expect(await findLimits(override({ multiplier: 0.001 }), 'default')).toEqual([
      [1, 1_000],
      [1, 60_000],
    ])
  })

  test('raise with a limit what belongs to it: the burst, and what is reserved', async () => {
    expect(await applyRules(override({ limits: { bucket: '600/1m' } }), 'bucket')).toMatchObject({ burst: 60 })
    expect(await applyRules(override({ multiplier: 3 }), 'shared')).toMatchObject({ reserved: 600 })
    expect((await applyRules(override({ limits: { exports: '9' } }), 'exports'))?.limits).toMatchObject([
      { limit: 9, windowMs: 60_000 },
    ])
  })

  test('are unlimited for all policies, or for those named', async () => {
    expect(await applyRules(override({ unlimited: true }), 'dear')).toMatchObject({ isUnlimited: true, mode: 'shadow' })
    expect(await applyRules(override({ unlimited: true, policies: ['dear'] }), 'default')).toEqual(
      createCharge('default'),
    )
  })

  test('have no effect where they do not fit the policy', async () => {
    const charge = createCharge('default')
    expect(await applyRules(override({ limits: { default: '600/1m' } }), 'default')).toEqual(charge)
    // A request may cost 20.
    expect(await applyRules(override({ limits: { dear: '19/1m' } }), 'dear')).toEqual(createCharge('dear'))
    expect(await applyRules(override({ multiplier: 1_000_000 }), 'default')).toEqual(charge)
  })

  test('of a caller itself go before those of many, and of many the longest value', async () => {
    const rules = {
      overrides: [
        { by: 'header:x-tenant', value: '*', multiplier: 2 },
        { by: 'header:x-tenant', value: 'acme-*', multiplier: 3, policies: ['default'] },
        { ...by, multiplier: 4, until: LATER },
        { digest: 'AAAAAAAAAAAAAAAAAAAAAA', multiplier: 5 },
      ],
    }
    const first = async (caller: Caller, name = 'dear', nowMs = NOW_MS, identity = '') =>
      (await applyRules(ordersFor(rules, caller, nowMs), name, identity))?.limits[0]?.limit
    expect(await first({ token: 'abc', tenant: 'acme-1' })).toBe(200)
    expect(await first({ token: 'abc', tenant: 'acme-1' }, 'dear', NOW_MS, 'AAAAAAAAAAAAAAAAAAAAAA')).toBe(250)
    expect(await first({ token: 'abc', tenant: 'acme-1' }, 'dear', NOW_MS + 1_000)).toBe(100)
    expect(await first({ tenant: 'acme-1' }, 'default')).toBe(30)
    expect(await first({ tenant: 'acme-1' }, 'dear')).toBe(100)
    expect(await first({ tenant: 'other' }, 'default')).toBe(20)
  })

  test('of many go by the longest value, whichever header it is of', async () => {
    const [short, long] = [
      { by: 'header:x-other', value: 'a*', multiplier: 2 },
      { by: 'header:x-tenant', value: 'acme-corporation-*', multiplier: 3 },
    ]
    for (const overrides of [
      [short, long],
      [long, short],
    ]) {
      const found = ordersFor({ overrides }, { tenant: 'acme-corporation-7', other: 'abc' })
      expect((await applyRules(found, 'default', ''))?.limits[0]?.limit).toBe(30)
    }
  })

  test('by a digest alone leave a policy that counts everyone together as it is', async () => {
    const shared = 'AAAAAAAAAAAAAAAAAAAAAA'
    for (const rules of [
      { blocks: [{ digest: shared }] },
      { allows: [{ digest: shared }] },
      { overrides: [{ digest: shared, multiplier: 5 }] },
    ]) {
      const requested = [createCharge('shared', shared), createCharge('default')]
      const orders = await ordersFor(rules, { token: 'abc' })
      expect(orders && 'apply' in orders && (await orders.apply(requested))).toEqual(requested)
    }
  })

  test('are remembered under names that differ from those of the limits before', async () => {
    const plans = [2, 3].map(async (multiplier) => (await applyRules(override({ multiplier }), 'default'))?.plan)
    expect(new Set([undefined, ...(await Promise.all(plans))]).size).toBe(3)
  })
})

test('RuleIndex.match() makes the digest of a token that nobody has seen for the limiter, too', async () => {
  const known = new TextLru<string>()
  const tokens = ['blocked', 'other']
  const blocks = tokens.slice(0, 1).map((token) => ({ by: 'token', digest: digest(['token', token]) }))
  const index = new RuleIndex(readRules({ blocks }), { ...OPTIONS, digestsOfTokens: known })
  for (const token of tokens) {
    const found = await index.match(findRequest({ token }), NOW_MS, NO_CONTEXT)
    expect(found !== undefined).toBe(token === 'blocked')
    expect(known.get(`Bearer ${token}`)).toBe(digest(['token', token]))
  }
})
