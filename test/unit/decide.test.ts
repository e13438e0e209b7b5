/// <reference types="@cloudflare/vitest-plugin/types" />
import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { DECIDE_TOKEN, type Decisions, openDecisions } from '../support/decisions.ts'
import { ADMIN_TOKEN } from '../support/operator.ts'

const POLICIES = [
  { name: 'api', by: 'token', limits: '5/1h', match: '/api' },
  { name: 'bucket', match: '/else', limits: '4/1h', algorithm: 'token-bucket', burst: 2 },
  { name: 'plans', match: '/else', limits: { free: '1/1h', pro: '3/1h' }, plan: 'header:x-plan', default_plan: 'free' },
  { name: 'slots', match: '/else', limits: '2', algorithm: 'concurrency' },
  { name: 'watch', limits: '1/1h', mode: 'shadow' },
  { name: 'first', priority: 'critical' },
]

const STORES: Record<string, () => Readonly<Record<string, unknown>>> = {
  memory: () => ({ STORE: 'memory' }),
  'Durable Objects': () => ({ STORE: 'durable-object', LIMITS: env.LIMITS }),
  Redis: () => ({
    UPSTASH_REDIS_REST_URL: inject('redisRestUrl'),
    UPSTASH_REDIS_REST_TOKEN: inject('redisRestToken'),
  }),
}

describe.each(Object.keys(STORES))('/_sluice/decide over %s', (store) => {
  let decisions: Decisions
  beforeAll(async () => {
    decisions = await openDecisions({ ...STORES[store]?.(), POLICIES, KEY_PREFIX: crypto.randomUUID() })
  })

  const grant = async (question: object) => (await decisions.decide(question)).body.granted

  test('takes units of a policy, as many as a question costs, and says when there are more', async () => {
    const question = { policy: 'api', identity: 'a', cost: 2 }
    expect(await decisions.decide(question)).toEqual({
      status: 200,
      body: {
        granted: true,
        limits: [
          {
            policy: 'api',
            name: 'api-1h',
            limit: 5,
            windowMs: 3_600_000,
            remaining: 3,
            resetMs: expect.any(Number),
            retryAfterMs: 0,
          },
        ],
        retryAfterMs: 0,
        decidedAtMs: expect.any(Number),
      },
    })
    expect(await grant(question)).toBe(true)
    const { body } = await decisions.decide(question)
    expect(body).toMatchObject({ granted: false, limits: [{ remaining: 1 }] })
    expect(body.retryAfterMs).toBeGreaterThan(3_500_000)
    expect(await grant({ ...question, cost: 1 })).toBe(true)
  })

  test('settles what was taken to what it has cost, once that is known, by every algorithm', async () => {
    const question = {
      charges: [
        { limits: '100/1d', identity: 'settled' },
        { limits: '100/1d', algorithm: 'quota', identity: 'settled', cost: 10 },
      ],
    }
    const remaining = (body: Record<string, unknown>) =>
      (body.limits as readonly { readonly remaining: number }[]).map((limit) => limit.remaining)
    const { body } = await decisions.decide(question)
    expect(remaining(body)).toEqual([99, 90])
    const { decidedAtMs } = body
    const settled = await decisions.decide({ ...question, action: 'settle', actual: 4, decidedAtMs })
    // What was charged too little is charged, and a quota gets back what was too much.
    expect([settled.body.granted, remaining(settled.body)]).toEqual([true, [96, 96]])
    const { status, body: problem } = await decisions.decide({ ...question, action: 'settle', actual: 4 })
    expect([status, problem.detail]).toEqual([
      400,
      'decidedAtMs: expected a number from 0 with "settle", and none with others.',
    ])
    expect((await decisions.decide({ ...question, actual: 4, decidedAtMs })).status).toBe(400)
  })

  test('counts identities as the gateway does', async () => {
    const headers = { Authorization: 'Bearer known' }
    for (let index = 0; index < 4; index++) expect((await decisions.fetch('/api', { headers })).status).toBe(200)
    const question = { policy: 'api', identity: ['token', 'known'] }
    expect([await grant(question), await grant(question)]).toEqual([true, false])
    expect((await decisions.fetch('/api', { headers })).status).toBe(429)
  })

  test('peeks without taking, and takes as much as there is', async () => {
    const question = { policy: 'api', identity: 'b' }
    for (let index = 0; index < 9; index++) expect(await grant({ ...question, action: 'peek' })).toBe(true)
    const some = { ...question, action: 'take-up-to', permits: 3, cost: 2 }
    expect([await grant(some), await grant(some), await grant(question)]).toEqual([2, 0, true])
    expect(await grant({ ...question, action: 'peek' })).toBe(false)
  })

  test('takes of all charges or of none', async () => {
    const charges = [
      { policy: 'bucket', identity: 'c' },
      { limits: '3/1h', identity: 'c' },
    ]
    expect([await grant({ charges }), await grant({ charges })]).toEqual([true, true])
    const { body } = await decisions.decide({ charges })
    expect(body).toMatchObject({
      granted: false,
      limits: [
        { policy: 'bucket', charge: 0 },
        { policy: 'decide', remaining: 1, charge: 1 },
      ],
    })
    expect(await grant({ limits: '3/1h', identity: 'c' })).toBe(true)
    expect(await grant({ limits: '3/1h', identity: 'c' })).toBe(false)
  })

  test('takes any limits, of which others have counts of their own', async () => {
    const question = { identity: ['user', 'd'], limits: '2/1h' }
    const calendar = ['2/25h', '2/day'].map((limits) => ({ algorithm: 'quota', limits }))
    const others = [
      { limits: '2/2h' },
      { algorithm: 'quota' },
      ...calendar,
      { name: 'other' },
      { identity: 'user' },
      {},
    ]
    for (const other of others) {
      const each = { ...question, ...other }
      expect([await grant(each), await grant(each), await grant(each)], JSON.stringify(other)).toEqual([
        true,
        true,
        false,
      ])
    }
    const bucket = { identity: 'd', limits: '10/1h', algorithm: 'token-bucket', burst: 1 }
    expect([await grant(bucket), await grant(bucket)]).toEqual([true, false])
  })

  test('holds identities to a plan, and refuses nothing in shadow mode', async () => {
    const question = { policy: 'plans', identity: 'e' }
    expect([await grant(question), await grant(question)]).toEqual([true, false])
    const pro = { ...question, plan: 'pro' }
    expect([await grant(pro), await grant(pro), await grant(pro), await grant(question)]).toEqual([
      true,
      true,
      false,
      false,
    ])
    const watched = { policy: 'watch', identity: 'e' }
    expect([await grant(watched), await grant(watched)]).toEqual([true, true])
  })
})

describe('/_sluice/decide', () => {
  let decisions: Decisions
  beforeAll(async () => {
    decisions = await openDecisions({ STORE: 'memory', POLICIES })
  })

  const charge = { policy: 'api', identity: 'a' }
  const own = { limits: '1/1h', identity: 'a' }

  test.each([
    [{ policy: 'nix', identity: 'a' }, '#/policy', /^policy: expected one of the policies with limits, .*: api, /],
    [{ policy: 'slots', identity: 'a' }, '#/policy', /but no slots/],
    [{ policy: 'first', identity: 'a' }, '#/policy', /with limits/],
    [{ policy: 'api' }, '#/identity', /^identity: missing/],
    [{ ...charge, identity: [] }, '#/identity', /^identity: expected/],
    [{ ...charge, identity: 7 }, '#/identity', /^identity: expected/],
    [{ ...charge, cost: 6 }, '#/cost', /^cost: expected an integer from 1 to 5, got 6\.$/],
    [{ ...charge, cost: 0 }, '#/cost', /^cost: expected >=1\.$/],
    [{ ...charge, cost: 1.5 }, '#/cost', /^cost: expected an integer\.$/],
    [{ ...charge, plan: 'pro' }, '#/plan', /^plan: expected a plan of the policy\.$/],
    [{ policy: 'plans', plan: '__proto__', identity: 'a' }, '#/plan', /^plan: expected a plan/],
    [{ ...charge, limits: '1/1s' }, '#/limits', /^limits: expected none together with a policy\.$/],
    [{ identity: 'a' }, '#/limits', /^limits: missing/],
    [{ ...own, limits: '1/1y' }, '#/limits', /^limits: expected limits such as/],
    [{ ...own, name: 'api' }, '#/name', /^name: expected a name that no policy of the configuration has/],
    [{ ...own, algorithm: 'concurrency' }, '#/algorithm', /^algorithm: expected/],
    [{ ...own, algorithm: 'token-bucket', burst: 0.5 }, '#/burst', /^burst: expected/],
    [{ ...own, penalty: 'x' }, '#/penalty', /^penalty: expected/],
    [{ ...charge, action: 'reset' }, '#/action', /^action: expected/],
    [{ ...charge, action: 'take-up-to' }, '#/permits', /^permits: expected an integer from 1/],
    [{ ...charge, permits: 2 }, '#/permits', /none with others/],
    [{ ...charge, action: 'take-up-to', permits: 1e10 }, '#/permits', /^permits: expected an integer from 1/],
    [{ charges: [] }, '#/charges', /^charges: expected a list of 1 to 50\.$/],
    [{ charges: {} }, '#/charges', /^charges: expected a list/],
    [{ charges: Array(51).fill(charge) }, '#/charges', /^charges: expected a list of 1 to 50\.$/],
    [{ charges: [charge, 'x'] }, '#/charges/1', /^charges\.1: expected/],
    [{ charges: [charge, { ...own, limits: '1' }] }, '#/charges/1/limits', /^limits: expected limits/],
    [{ charges: [charge, { policy: 'nix', identity: 'a' }] }, '#/charges/1/policy', /^charges\.1\.policy: expected/],
    [{ charges: [charge, { ...charge, identity: ['a'] }] }, '#/charges', /each policy once for an identity/],
    [{ charges: [charge], cost: 2 }, '#/cost', /^cost: unknown field\.$/],
    ['a', '#', /^The body: expected Object/],
    [null, '#', /^The body: expected Object/],
  ])('refuses %j', async (question, pointer, detail) => {
    const { status, body } = await decisions.decide(question)
    expect(body).toMatchObject({ code: 'invalid_input', pointer, detail: expect.stringMatching(detail) })
    expect(status).toBe(400)
  })

  test('is for who has the token, by POST, as JSON', async () => {
    const ask = async (init: RequestInit, path = 'decide') => (await decisions.fetch(`/_sluice/${path}`, init)).status
    const headers = { Authorization: `Bearer ${DECIDE_TOKEN}`, 'Content-Type': 'application/json' }
    const body = JSON.stringify(charge)
    expect(await ask({ method: 'POST', headers, body })).toBe(200)
    expect(await ask({ method: 'POST', headers: { ...headers, Authorization: `Bearer ${DECIDE_TOKEN}x` }, body })).toBe(
      401,
    )
    expect(await ask({ method: 'POST', headers: { 'Content-Type': 'application/json' }, body })).toBe(401)
    expect(await ask({ method: 'POST', headers: { ...headers, 'Content-Type': 'text/plain' }, body })).toBe(415)
    // Some programs would read the first of them.
    expect(await ask({ method: 'POST', headers, body: body.replace('{', '{"identity":"b",') })).toBe(400)
    expect(await ask({ method: 'PUT', headers, body })).toBe(405)
    expect(await ask({ method: 'GET', headers })).toBe(405)
    expect(await ask({ method: 'POST', headers, body }, 'openapi.json')).toBe(405)
    expect(await ask({}, 'openapi.json')).toBe(401)
    const without = await openDecisions({ STORE: 'memory', DECIDE_TOKEN: undefined })
    for (const path of ['decide', 'authorize', 'openapi.json']) {
      expect((await without.fetch(`/_sluice/${path}`, { headers })).status).toBe(404)
    }
  })

  test('goes by the policies that operators have pushed', async () => {
    const operated = await openDecisions({ STORE: 'memory', POLICIES, RULES: 'on', RULES_REFRESH_MS: 100, ADMIN_TOKEN })
    const pushed = await operated.fetch('/_sluice/admin/policies/push', {
      method: 'POST',
      headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ policies: [{ name: 'api', limits: '9/1h' }], actor: 'test' }),
    })
    expect(pushed.status).toBe(200)
    const { body } = await operated.decide({ policy: 'api', identity: 'a' })
    expect(body).toMatchObject({ granted: true, limits: [{ limit: 9 }] })
    expect((await operated.decide({ policy: 'bucket', identity: 'a' })).status).toBe(400)
  })

  test('is described, with the route for proxies', async () => {
    const response = await decisions.fetch('/_sluice/openapi.json', {
      headers: { Authorization: `Bearer ${DECIDE_TOKEN}` },
    })
    const document = (await response.json()) as { paths: Record<string, object> }
    expect(Object.keys(document.paths)).toEqual(['/decide', '/authorize'])
    expect(JSON.stringify(document)).toContain('take-up-to')
    expect(response.headers.get('Cache-Control')).toBe('no-store')
  })
})
