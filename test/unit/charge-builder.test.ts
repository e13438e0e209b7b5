import { expect, onTestFinished, test, vi } from 'vitest'
import type { Reading } from '../../src/core/model/identity-source.ts'
import type { Priority, RequestPolicy } from '../../src/core/model/policy.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { TextLru } from '../../src/core/runtime/lru.ts'
import { type Environment, loadConfig } from '../../src/http/config/load-config.ts'
import {
  createDigestCharge,
  findMissing,
  isHeldOpen,
  isKnownAtEnd,
  isRefusedEarly,
  mustAwaitResponse,
  RequestChargeBuilder,
  type RequestChargeBuilderOptions,
} from '../../src/http/request/charge-builder.ts'
import type { ReceivedRequest } from '../../src/http/request/received-request.ts'
import { callContext } from '../support/call-context.ts'
import { makeChargeKey } from '../support/make-charge.ts'

/** Makes the key of a request by the first of the policies. */
function keys(env: Environment = {}) {
  const config = loadConfig({ UPSTREAM_URL: 'https://api.example.com', ...env })
  const builder = new RequestChargeBuilder(config)
  const policy = config.policies[0] ?? expect.unreachable()
  return (headers: Readonly<Record<string, string>>) =>
    makeChargeKey(builder, policy, new Request('https://gateway.example/', { headers }))
}

test('RequestChargeBuilder#build() knows a caller again by any spelling of the same credential', async () => {
  const findKey = keys()
  const spellings = ['Bearer X', 'bearer X', 'BEARER   X', 'Bearer X']
  const found = await Promise.all([...spellings, ...spellings].map((Authorization) => findKey({ Authorization })))
  expect(new Set(found).size).toBe(1)
  expect(await findKey({ Authorization: 'Bearer x' })).not.toBe(found[0])
})

test('RequestChargeBuilder#build() answers the same to a caller that it knows as to one that it does not', async () => {
  const known = keys()
  for (const Authorization of ['Bearer X', 'Basic abc', 'Digest a="b", c=d', 'lonely', '']) {
    const first = await known({ Authorization })
    expect([await known({ Authorization }), await keys()({ Authorization })]).toEqual([first, first])
  }
})

test('RequestChargeBuilder#build() remembers nobody by a credential that it cannot read', async () => {
  const findKey = keys()
  const by = (address: string) => findKey({ Authorization: 'Bearer a b', 'CF-Connecting-IP': address })
  const one = await by('203.0.113.1')
  expect(await by('203.0.113.2')).not.toBe(one)
  expect(await by('203.0.113.1')).toBe(one)
})

test('RequestChargeBuilder#build() goes by all that a policy counts by, not by a known token alone', async () => {
  const findKey = keys({ POLICIES: [{ name: 'both', limits: '5/1m', by: 'token+ip' }], RATE_LIMITS: undefined })
  const by = (address: string) => findKey({ Authorization: 'Bearer X', 'CF-Connecting-IP': address })
  const one = await by('203.0.113.1')
  expect(await by('203.0.113.2')).not.toBe(one)
  expect(await by('203.0.113.1')).toBe(one)
})

test('RequestChargeBuilder#build() keeps the same caller of two policies apart', async () => {
  const config = loadConfig({
    UPSTREAM_URL: 'https://api.example.com',
    POLICIES: ['a', 'b'].map((name) => ({ name, limits: '5/1m' })),
  })
  const builder = new RequestChargeBuilder(config)
  const request = new Request('https://gateway.example/', { headers: { Authorization: 'Bearer X' } })
  const found = await Promise.all(config.policies.map((policy) => makeChargeKey(builder, policy, request)))
  expect(found).toHaveLength(2)
  expect(found[0]?.replace(':a:', ':b:')).toBe(found[1])
})

/** A policy of a table, and a builder for it alone. */
function prepare(
  table: object,
  change: Partial<RequestPolicy> = {},
  options: Partial<RequestChargeBuilderOptions> = {},
  env: Environment = {},
) {
  const config = loadConfig({
    UPSTREAM_URL: 'https://api.example.com',
    RATE_LIMITS: 'off',
    POLICIES: [{ name: 'own', limits: '50/1m', by: 'ip', ...table }],
    ...env,
  })
  const policy: RequestPolicy = { ...(config.policies[0] ?? expect.unreachable()), ...change }
  const builder = new RequestChargeBuilder({ ...config, ...options, policies: [policy] })
  const build = (request: Partial<ReceivedRequest> = {}, route?: string, path = '/', priority: Priority = 'default') =>
    builder.build({ policy, route, isCertain: true }, receive(request), path, priority, callContext())
  const buildCharge = async (...args: Parameters<typeof build>) => {
    const charge = await build(...args)
    return typeof charge === 'string' || 'outcome' in charge ? expect.unreachable() : charge
  }
  return { policy, build, buildCharge }
}

/** As a server might hand it on: it has trimmed nothing. */
function receive(request: Partial<ReceivedRequest>): ReceivedRequest {
  const url = 'https://gateway.example/'
  return { method: 'GET', url, headers: new Headers(), body: null, clone: () => ({ body: null }), ...request }
}

function withHeaders(fields: Readonly<Record<string, string>>): Partial<ReceivedRequest> {
  const get = (name: string) => fields[name] ?? null
  return { headers: { get, has: (name) => name in fields } }
}

const ADDRESS = createDigest(undefined)(['ip', 'unknown'])

test('RequestChargeBuilder#build() puts into a charge what its policy asks for, and no more', async () => {
  const plain = prepare({})
  const { limits } = plain.policy
  const common = { algorithm: 'sliding-window', limits, mode: 'enforce', route: undefined, reserved: 0, cost: 1 }
  const key = `sluice:own:w:{${ADDRESS}}`
  expect(await plain.buildCharge()).toStrictEqual({ ...common, policy: plain.policy, digest: ADDRESS, key })
  for (const [table, terms] of [
    [{ counts: 'failures' }, { counts: 'failures' }],
    // Objects and scripts know one kind of what is charged later.
    [{ counts: 'successes' }, { counts: 'failures' }],
    [{ counts: 'responses' }, { counts: 'failures' }],
    [{ actual_cost: 'header:x-cost', untold: 1 }, { needsSettlement: true }],
    [{ penalty: '10m' }, { penalty: { durationMs: 600_000, after: 1 } }],
    [{ mode: 'shadow' }, { mode: 'shadow' }],
    [{ cost: 7 }, { cost: 7 }],
  ] as const) {
    const { policy, buildCharge } = prepare(table)
    expect(await buildCharge()).toStrictEqual({ ...common, policy, digest: ADDRESS, key, ...terms })
  }
  const { policy, buildCharge } = prepare({ algorithm: 'token-bucket', burst: 70 })
  expect(await buildCharge({}, 'GET /*')).toStrictEqual({
    ...{ ...common, algorithm: 'token-bucket', burst: 70, limits: policy.limits, policy, route: 'GET /*' },
    ...{ digest: ADDRESS, key: `sluice:own:t:{${ADDRESS}}` },
  })
})

test('RequestChargeBuilder#build() draws the number of a slot where slots are held', async () => {
  const held = prepare({ algorithm: 'concurrency', limits: '5' }, {}, { drawSlot: () => 77 })
  expect(await held.buildCharge()).toMatchObject({ slot: 77 })
  const drawn = prepare({ algorithm: 'concurrency', limits: '5' })
  expect((await drawn.buildCharge()).slot).toSatisfy(Number.isSafeInteger)
  expect(await prepare({}, {}, { drawSlot: () => 77 }).buildCharge()).not.toHaveProperty('slot')
})

test('RequestChargeBuilder#build() reserves by priority', async () => {
  const { buildCharge } = prepare({}, { reserved: { critical: 0, default: 5, sheddable: 20 } })
  const priorities = ['critical', 'default', 'sheddable'] as const
  const charges = await Promise.all(priorities.map((priority) => buildCharge({}, undefined, '/', priority)))
  expect(charges.map(({ reserved }) => reserved)).toEqual([0, 5, 20])
})

const PLANS = { limits: { free: '50/1m', pro: '100/1m' }, plan: 'header:x-plan', default_plan: 'free' }

test.each([
  ['pro', 100, 'pro'],
  ['free', 50, 'free'],
  ['other', 50, 'free'],
  ['pro,free', 50, 'free'],
  ['', 50, 'free'],
])('RequestChargeBuilder#build() takes the limits of the plan that "%s" names', async (given, limit, plan) => {
  const { buildCharge } = prepare(PLANS)
  const charge = await buildCharge(withHeaders({ 'x-plan': given }))
  expect([charge.limits[0]?.limit, charge.plan]).toEqual([limit, plan])
  const later = prepare(PLANS, {}, { edition: 'e2' })
  expect((await later.buildCharge(withHeaders({ 'x-plan': given }))).plan).toBe(`e2 ${plan}`)
  expect((await prepare({}, {}, { edition: 'e2' }).buildCharge()).plan).toBe('e2')
})

test.each([
  ['"pro"', 100],
  ['"\\u0070ro"', 100],
  ['"free"', 50],
  ['7', 50],
])('RequestChargeBuilder#build() takes the limits of the plan that the claim %s names', async (value, limit) => {
  const readClaim = (): Reading => ({ kind: 'value', value })
  const env = { JWT_SECRET: 'x'.repeat(32) }
  const { buildCharge } = prepare({ ...PLANS, plan: 'claim:plan' }, {}, { readClaim }, env)
  expect((await buildCharge()).limits[0]?.limit).toBe(limit)
})

test('RequestChargeBuilder#build() counts by route as APIs tell routes apart', async () => {
  const find = async (table: object, method: string, path: string, route?: string) =>
    (await prepare({ by: 'route', ...table }).buildCharge({ method }, route, path)).digest
  const digestRoute = (route: string) => createDigest(undefined)(['route', route])
  expect(await find({}, 'GET', '/a')).toBe(digestRoute('GET /A'))
  expect(await find({}, 'HEAD', '/a')).toBe(digestRoute('GET /A'))
  expect(await find({}, 'POST', '/a')).toBe(digestRoute('POST /A'))
  expect(await find({ ignore_case: false }, 'GET', '/a')).toBe(digestRoute('GET /a'))
  expect(await find({}, 'HEAD', '/a', '* /a/*')).toBe(digestRoute('* /a/*'))
})

test('RequestChargeBuilder#build() compares a parameter with that of the path only where a pattern names it', async () => {
  const { buildCharge } = prepare({ by: 'query:id' }, {}, { mergesParameters: true })
  const find = async (route: string | undefined, path: string) => {
    const { digest } = await buildCharge({ url: 'https://gateway.example/?id=8' }, route, path)
    return digest === ADDRESS ? 'ambiguous' : digest === createDigest(undefined)(['query:id', '8']) ? '8' : digest
  }
  expect(await find('* /u/:id', '/u/7')).toBe('ambiguous')
  expect(await find('* /u/:id', '/u/8')).toBe('8')
  expect(await find('* /u/*', '/u/7')).toBe('8')
  expect(await find(undefined, '/u/:id')).toBe('8')
  expect(await find(undefined, '/u/7')).toBe('8')
})

test.each<[anonymous: string, expected: string | object]>([
  ['skip', 'skip'],
  ['ip', ADDRESS],
  ['deny:403', { outcome: 'unidentified', status: 403 }],
])(
  'RequestChargeBuilder#build() of a caller that names itself not, with anonymous = %j',
  async (anonymous, expected) => {
    const charge = await prepare({ by: 'header:x-key', anonymous }).build()
    if (typeof expected === 'object') expect(charge).toMatchObject(expected)
    else expect(typeof charge === 'object' && 'digest' in charge ? charge.digest : charge).toBe(expected)
  },
)

test('findMissing() refuses nobody in shadow mode, and skips whom the policy skips', () => {
  const find = (anonymous: string, mode: string) => findMissing(prepare({ by: 'header:x-key', anonymous, mode }).policy)
  expect(['enforce', 'shadow'].map((mode) => find('skip', mode))).toEqual([{ kind: 'skip' }, { kind: 'skip' }])
  expect(['enforce', 'shadow'].map((mode) => find('deny:401', mode))).toEqual([
    { kind: 'deny', status: 401 },
    { kind: 'ip' },
  ])
})

test('RequestChargeBuilder#build() hashes a caller once', async () => {
  const remember = vi.spyOn(TextLru.prototype, 'set')
  onTestFinished(() => remember.mockRestore())
  const digestsOfTokens = new TextLru<string>()
  const { buildCharge } = prepare({ by: 'token' }, {}, { digestsOfTokens })
  const request = withHeaders({ Authorization: 'Bearer X' })
  const { digest } = await buildCharge(request)
  expect(digest).toBe(createDigest(undefined)(['token', 'X']))
  expect((await buildCharge(request)).digest).toBe(digest)
  expect(remember.mock.calls).toEqual([['Bearer X', digest]])
  expect(digestsOfTokens.get('Bearer X')).toBe(digest)
  digestsOfTokens.set('Bearer X', 'known')
  expect((await buildCharge(request)).digest).toBe('known')
  remember.mockClear()
  for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.1']) {
    for (const by of [buildCharge, buildCharge]) expect(await by({ address })).toMatchObject({ cost: 1 })
  }
  expect(remember.mock.calls.map(([text]) => text)).toEqual(['["ip","192.0.2.1"]', '["ip","192.0.2.2"]'])
})

const MOST = 20

test.each<[given: string | undefined, cost: number, status: number | undefined]>([
  [undefined, 1, undefined],
  ['1', 1, undefined],
  [' 3\t', 3, undefined],
  ['020', 20, undefined],
  ['21', 20, 413],
  ['1e1', 1, 400],
  ['x3', 1, 400],
  ['3x', 1, 400],
  ['-3', 1, 400],
  ['0', 1, 400],
  ['', 1, 400],
])('a header of %j costs %i, or is refused with %s', async (given, cost, status) => {
  const request = withHeaders(given === undefined ? {} : { 'x-cost': given })
  const table = { cost: 'header:x-cost', max_cost: MOST }
  expect(await prepare({ ...table, mode: 'shadow' }).buildCharge(request)).toMatchObject({ cost })
  const charge = await prepare(table).build(request)
  const refused = { outcome: 'invalid_cost', status, header: 'x-cost', max: MOST }
  if (status === undefined) expect(charge).toMatchObject({ cost })
  else expect(charge).toStrictEqual(refused)
})

test.each<[units: number, cost: number, isRefused: boolean]>([
  [MOST, MOST, false],
  [3, 3, false],
  [MOST + 1, MOST, true],
])('a function that tells %i costs %i', async (units, cost, isRefused) => {
  const tell = async (context: unknown, max: number) => (context === 'mine' && max === MOST ? units : Number.NaN)
  const change = { cost: { kind: 'application', tell, max: MOST } } as const
  expect(await prepare({ mode: 'shadow' }, change).buildCharge({ context: 'mine' })).toMatchObject({ cost })
  const charge = await prepare({}, change).build({ context: 'mine' })
  if (!isRefused) expect(charge).toMatchObject({ cost })
  else expect(charge).toStrictEqual({ outcome: 'invalid_cost', status: 413, header: undefined, max: MOST })
})

test.each<[headers: Readonly<Record<string, string>>, body: unknown, cost: number]>([
  [{}, null, 1],
  [{}, 'a body', MOST],
  [{ 'Content-Length': '0' }, null, 1],
  [{ 'Content-Length': '4' }, 'a body', 1],
  [{ 'Content-Length': '5' }, 'a body', 2],
  [{ 'Content-Length': '80' }, 'a body', MOST],
  [{ 'Content-Length': '8000' }, 'a body', MOST],
  [{ 'Content-Length': '8', 'Transfer-Encoding': 'chunked' }, 'a body', MOST],
  [{ 'Content-Length': '8', 'Transfer-Encoding': 'chunked' }, null, 1],
  [{ 'Content-Length': '8, 8' }, 'a body', MOST],
  [{ 'Content-Length': '-8' }, 'a body', MOST],
  [{ 'Content-Length': '1'.repeat(16) }, null, 1],
  [{ 'Content-Length': '0'.repeat(14).concat('8') }, 'a body', 2],
  [{ 'Content-Length': '' }, 'a body', MOST],
])('a body of %j, %j costs %i', async (headers, body, cost) => {
  const change = { cost: { kind: 'size', weight: 0.25, max: MOST } } as const
  expect(await prepare({}, change).buildCharge({ ...withHeaders(headers), body })).toMatchObject({ cost })
})

test('createDigestCharge() makes the charge of a caller that is known by its digest', () => {
  const { policy } = prepare(
    { ...PLANS, cost: 3, counts: 'failures' },
    { reserved: { critical: 1, default: 2, sheddable: 3 } },
  )
  const create = (plan?: string) => createDigestCharge(policy, 'digest', 'prefix', plan)
  const { limits } = policy
  const common = {
    policy,
    algorithm: 'sliding-window',
    mode: 'enforce',
    digest: 'digest',
    key: 'prefix:own:w:{digest}',
  }
  const free = { ...common, limits, plan: 'free', cost: 3, reserved: 0 }
  expect(create()).toStrictEqual(free)
  expect(create('none')).toStrictEqual(free)
  expect(create('pro')).toStrictEqual({ ...free, plan: 'pro', limits: policy.plans?.limits.pro?.limits })
  const byHeader = prepare({ cost: 'header:x-cost', max_cost: MOST }).policy
  expect(createDigestCharge(byHeader, 'digest', 'prefix')).toMatchObject({ cost: 1 })
})

test.each<[table: object, awaits: boolean, holds: boolean, endsEarly: boolean]>([
  [{}, false, false, false],
  [{ cost: 3 }, false, false, false],
  [{ algorithm: 'concurrency', limits: '5' }, false, true, true],
  [{ counts: 'failures' }, true, true, false],
  [{ actual_cost: 'bytes' }, true, true, true],
  [{ cost: 'header:x-cost', max_cost: 3 }, false, false, true],
])(
  'a policy of %j awaits responses: %s, is held open: %s, may refuse for less than it says: %s',
  (table, ...expected) => {
    const { policy } = prepare(table)
    expect([mustAwaitResponse(policy), isHeldOpen(policy), isRefusedEarly(policy)]).toEqual(expected)
  },
)

test('isRefusedEarly() of a policy that counts new identities', () => {
  expect(isRefusedEarly(prepare({}, { counts: 'new-identities' }).policy)).toBe(true)
})

test('isKnownAtEnd() of terms that the head tells, or not', () => {
  const [head, body] = ['header:x-cost', 'json:/a'].map(
    (term) => prepare({ actual_cost: term, untold: 1 }).policy.actualCost,
  )
  expect([undefined, [], head, body].map((terms) => isKnownAtEnd(terms))).toEqual([false, false, false, true])
  expect(isKnownAtEnd([...(head ?? []), ...(body ?? [])])).toBe(true)
})
