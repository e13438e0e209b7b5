/** What `loadConfig()` makes of the tables of policies, and the contradictions in them that it refuses. */
import { describe, expect, test } from 'vitest'
import { policyKeys } from '../../src/http/config/policy-keys.ts'
import {
  A,
  DURATION,
  LARGE,
  LIMITS,
  load,
  PASSED,
  PLAIN,
  PLANS,
  readMessage,
  toPattern,
  UPSTREAM_URL,
} from '../support/config.ts'

type Table = Readonly<Record<string, unknown>>
const loadPolicy = (policy: Table) => load({ POLICIES: [{ ...A, ...policy }] }).policies[0]

describe('loadConfig() makes policies', () => {
  const DENIED = { kind: 'deny', status: 401 }
  const table = [
    { name: 'login', limits: '20/1h, 5/1m', by: 'ip + header:X-Tenant', match: 'POST /login', cost: 2, mode: 'shadow' },
    { name: 'search', limits: '1000/1d', by: 'query:q', match: ['GET /search', '/find/*'], cost: '10' },
  ]
  const expected = [
    {
      ...PLAIN,
      name: 'login',
      limits: [
        { name: 'login-1m', limit: 5, windowMs: 60_000 },
        { name: 'login-1h', limit: 20, windowMs: 3_600_000 },
      ],
      by: [{ kind: 'ip' }, { kind: 'header', name: 'x-tenant' }],
      match: [{ method: 'POST', path: '/login' }],
      cost: { kind: 'fixed', units: 2 },
      mode: 'shadow',
    },
    {
      ...PLAIN,
      name: 'search',
      limits: [{ name: 'search-1d', limit: 1000, windowMs: 86_400_000 }],
      by: [{ kind: 'query', name: 'q' }],
      match: ['GET /search', '* /find/*'].map(toPattern),
      cost: { kind: 'fixed', units: 10 },
    },
  ]

  test('of a list of tables, or of the same list as JSON', () => {
    for (const POLICIES of [table, JSON.stringify(table)]) expect(load({ POLICIES }).policies).toEqual(expected)
  })

  test('after the default one if RATE_LIMITS is set, which takes its name, and without it if that is off', () => {
    const { policies } = load({ RATE_LIMITS: '10/1s, 120/1m', POLICIES: table })
    expect(policies.map(({ name }) => name)).toEqual(['default', 'login', 'search'])
    expect(policies[0]?.limits.map(({ name }) => name)).toEqual(['default-1s', 'default-1m'])
    expect(load({ POLICIES: [{ ...A, name: 'default' }] }).policies).toHaveLength(1)
    expect(load({ RATE_LIMITS: 'off', POLICIES: [A] }).policies.map(({ name }) => name)).toEqual(['a'])
  })

  const slots = { algorithm: 'concurrency', limits: '20' }
  const toLimits = (limit: number, windowMs: number, name: string) => ({ limits: [{ name, limit, windowMs }] })
  test.each<[Table, object]>([
    [{ algorithm: 'token-bucket' }, { burst: 5 }],
    [{ algorithm: 'token-bucket', burst: 9 }, { burst: 9 }],
    [slots, toLimits(20, 60_000, 'a')],
    [{ ...slots, slot_ttl: '5m' }, toLimits(20, 300_000, 'a')],
    [{ limits: '100001/1d', allow_large_log: true }, toLimits(100_001, 86_400_000, 'a-1d')],
    [{ limits: '6000000/30d', algorithm: 'quota' }, toLimits(6_000_000, 2_592_000_000, 'a-30d')],
    [
      { algorithm: 'quota', actual_cost: 'header:X-Actual', untold: 7 },
      { actualCost: [{ kind: 'header', name: 'x-actual', weight: 1 }], untold: 7, onDisconnect: 'read' },
    ],
    [
      { actual_cost: { 'json:/a|/b/~1|0': 2, 'json:/c': -0.5 }, untold: 'bytes/4', on_disconnect: 'abort' },
      {
        actualCost: [
          { kind: 'json', name: '/a|/b/~1|0', paths: [['a'], ['b', '/']], isOptional: true, weight: 2 },
          { kind: 'json', name: '/c', paths: [['c']], isOptional: false, weight: -0.5 },
        ],
        untold: { kind: 'bytes', weight: 0.25 },
        onDisconnect: 'abort',
      },
    ],
    [
      { algorithm: 'quota', cost: 'bytes:request/4', max_cost: 5, actual_cost: 'json:/a', untold: 0 },
      { cost: { kind: 'size', weight: 0.25, max: 5 }, untold: 0 },
    ],
    [{ cost: 'header:X-Cost', max_cost: 3 }, { cost: { kind: 'header', name: 'x-cost', max: 3 } }],
    // A cost may be all of the smallest limit.
    [{ limits: '10/1s, 5/1m', cost: 5 }, { cost: { kind: 'fixed', units: 5 } }],
    [{ limits: '10/1s', reserve: { critical: 0.2 } }, { reserved: { critical: 0, default: 2, sheddable: 2 } }],
    [
      { limits: '10/1s', reserve: { critical: 0.2, default: 0.25 } },
      { reserved: { critical: 0, default: 2, sheddable: 5 } },
    ],
    [{ limits: '10/1s', reserve: { default: 0.3 } }, { reserved: { critical: 0, default: 0, sheddable: 3 } }],
    [{ anonymous: 'ip' }, { anonymous: { kind: 'ip' } }],
    [{ anonymous: 'skip' }, { anonymous: { kind: 'skip' } }],
    [{ anonymous: 'deny' }, { anonymous: DENIED }],
    [{ anonymous: 'deny:403' }, { anonymous: { kind: 'deny', status: 403 } }],
    [{}, { anonymous: { kind: 'ip' }, penalty: undefined }],
    ...['lower', 'trim', 'lower trim'].map((fold): [Table, object] => [{ by: 'token+json:/email', fold }, { fold }]),
    [{ penalty: '10m' }, { penalty: { durationMs: 600_000, after: 1 } }],
    [{ penalty: '1h', penalty_after: 5 }, { penalty: { durationMs: 3_600_000, after: 5 } }],
    [
      { penalty: '90s', penalty_after: '1000', algorithm: 'token-bucket' },
      { penalty: { durationMs: 90_000, after: 1_000 } },
    ],
    [{ counts: 'failures', failures: '401' }, { failures: [401] }],
    [{ counts: 'failures', failures: 401 }, { failures: [401] }],
    [{ counts: 'failures', failures: '401, 403' }, { failures: [401, 403] }],
    [{ counts: 'failures', failures: ['401', 403] }, { failures: [401, 403] }],
    [{ counts: 'failures', failures: '429,401,401' }, { failures: [429, 401] }],
  ])('with %j', (keys, expected) => {
    expect(loadPolicy(keys)).toMatchObject(expected)
  })

  test('with slots, whose number may be a number', () => {
    expect(loadPolicy({ ...slots, limits: 20 })).toEqual(loadPolicy(slots))
  })

  test('that count a class of statuses as failures: all of it but 429, and 4xx by default', () => {
    const loadFailures = (failures?: string, counts = 'failures') => {
      return [loadPolicy({ counts, failures })?.failures].flat() as readonly number[]
    }
    const clientErrors = Array.from({ length: 100 }, (_, index) => 400 + index).filter((status) => status !== 429)
    expect(loadFailures()).toEqual(clientErrors)
    expect(loadFailures('4xx')).toEqual(clientErrors)
    expect(loadFailures('4xx except 404 422')).toEqual(
      clientErrors.filter((status) => status !== 404 && status !== 422),
    )
    expect(loadFailures('5xx except 503, 401').slice(0, 4)).toEqual([500, 501, 502, 504])
    expect(loadFailures('4XX, 429')).toEqual([...clientErrors, 429])
    expect(loadFailures('5xx')).toHaveLength(100)
    expect(loadFailures(undefined, 'successes')).toHaveLength(200)
    expect(loadFailures(undefined, 'responses')).toEqual([])
  })

  test('that only classify', () => {
    const POLICIES = [{ name: 'a', match: '/a', priority: 'critical' }]
    expect(load({ POLICIES, SHEDDING: 'on' }).policies).toMatchObject([{ name: 'a', limits: [], priority: 'critical' }])
  })

  test('that deny whoever sends no body with what they count by, unless they say otherwise', () => {
    const tables = ['form:user', 'json:/user', 'route+form:user', 'ip'].map((by) => ({ ...A, name: by[0], by }))
    const POLICIES = [...tables, { ...A, name: 'x', by: 'form:u', anonymous: 'ip' }]
    const ip = { kind: 'ip' }
    const anonymous = load({ ANONYMOUS: 'ip', POLICIES }).policies.map((policy) => policy.anonymous)
    expect(anonymous).toEqual([DENIED, DENIED, DENIED, ip, ip])
  })

  test('that do what ANONYMOUS and ON_STORE_ERROR say, unless they say otherwise', () => {
    const POLICIES = [
      { ...A, anonymous: 'ip', on_store_error: 'closed' },
      { ...A, name: 'b' },
    ]
    const { policies } = load({ RATE_LIMITS: '9/1m', POLICIES, ANONYMOUS: 'deny', ON_STORE_ERROR: 'open' })
    expect(policies.map(({ anonymous }) => anonymous)).toEqual([DENIED, { kind: 'ip' }, DENIED])
    expect(policies.map(({ onStoreError }) => onStoreError)).toEqual(['open', 'closed', 'open'])
  })

  test('that count new identities after those that detect them', () => {
    const policy = { name: 'new', limits: '20/1m', by: 'ip', counts: 'new-identities' }
    expect(load({ RATE_LIMITS: '9/1m', POLICIES: [policy] }).policies).toMatchObject([{}, { counts: 'new-identities' }])
  })

  test.each([
    [{ MODE: 'enforce' }, undefined, true],
    [{ MODE: 'enforce' }, 'shadow', false],
    [{ MODE: 'shadow' }, undefined, false],
    [{ MODE: 'shadow' }, 'shadow', false],
    // MODE=shadow never refuses, whatever a policy says.
    [{ MODE: 'shadow' }, 'enforce', false],
  ])('under %j with mode %s enforced: %s', (env, mode, enforced) => {
    const { policies } = load({ ...env, POLICIES: [{ ...A, ...(mode && { mode }) }] })
    expect(policies[0]?.mode === 'enforce').toBe(enforced)
  })
})

describe('loadConfig() makes plans', () => {
  const loadPlans = (keys: Table) => load({ POLICIES: [{ ...PLANS, ...keys }] }).policies[0]

  test('whose limits are those of the default plan where nobody says one', () => {
    const policy = loadPlans({})
    const names = ['api-1m', 'api-1d']
    expect(policy?.limits.map(({ name, limit }) => [name, limit])).toEqual([
      [names[0], 10],
      [names[1], 100],
    ])
    expect(policy?.plans).toMatchObject({ source: { kind: 'header', name: 'x-plan' }, byDefault: 'free' })
    expect(policy?.plans?.limits.pro).toMatchObject({ limits: [{ limit: 600, name: names[0] }, { limit: 9_000 }] })
  })

  test('each with a bucket of its limit, or all with the same burst', () => {
    const bucket = { algorithm: 'token-bucket', limits: { free: '1/1s', pro: '60/1s' } }
    const loadBursts = (keys: Table) => Object.values(loadPlans(keys)?.plans?.limits ?? {}).map(({ burst }) => burst)
    expect(loadBursts(bucket)).toEqual([1, 60])
    expect(loadBursts({ ...bucket, burst: 90 })).toEqual([90, 90])
    const slots = loadPlans({ algorithm: 'concurrency', limits: { free: '1', pro: 20 } })
    expect(slots?.plans?.limits.pro?.limits).toEqual([{ name: 'api', limit: 20, windowMs: 60_000 }])
  })
})

const FAILURES = { counts: 'failures' }
const SLOTS = { algorithm: 'concurrency', limits: '5' }

test.each<[Table, string]>([
  [{ prioritty: 1 }, `prioritty: unknown setting; expected one of ${Object.keys(policyKeys).join(', ')}`],
  [{ by: 'ip+header:X_Key' }, `by: expected ${PASSED}, got "header:x_key"`],
  [{ by: 'header:X-Real-IP' }, `by: expected ${PASSED}, got "header:x-real-ip"`],
  // By the secret for the API, nobody is counted.
  [{ by: 'header:sluice-secret' }, `by: expected ${PASSED}, got "header:sluice-secret"`],
  [{ cost: 'header:X-Forwarded-Cost', max_cost: 2 }, `cost: expected ${PASSED}, got "header:x-forwarded-cost"`],
  [
    { match: ['POST /login,/x'] },
    'match: expected an item for each pattern (a sign that is meant as it stands is escaped, such as "%24" for "$"), got ["POST /login,/x"]',
  ],
  [{ cost: 6 }, 'cost: expected at most the smallest limit of the policy, 5, got 6'],
  [{ cost: 'header:x-cost' }, 'max_cost: expected the highest cost that a request may name, got nothing'],
  [{ cost: 'header:x-cost', max_cost: 6 }, 'max_cost: expected at most the smallest limit of the policy, 5, got 6'],
  [
    { actual_cost: 'json:/a' },
    'untold: expected the units of a request whose response does not tell what it costs, such as 1000 or "bytes/4" (0: free), got nothing',
  ],
  [{ untold: 5 }, 'untold: expected actual_cost of "header:" or "json:" with it, got 5'],
  [{ actual_cost: 'bytes', untold: 5 }, 'untold: expected actual_cost of "header:" or "json:" with it, got 5'],
  [{ on_disconnect: 'abort' }, 'on_disconnect: expected actual_cost with it, got "abort"'],
  ...[{}, { actual_cost: 'bytes' }].map((more): [Table, string] => [
    { cost: 'bytes:request/4', max_cost: 5, ...more },
    'cost: expected actual_cost with it, and an algorithm that gives back what was too much, got "bytes:request"',
  ]),
  [{ max_cost: 5 }, 'max_cost: expected cost = "header:<name>" or "bytes:request/…" with it, got 5'],
  ...['lower', 'trim', 'lower trim'].map((fold): [Table, string] => [
    { by: 'token', fold },
    `fold: expected by "header:", "query:", "form:", "cookie:", "json:" or "claim:" with it, got "${fold}"`,
  ]),
  [{ burst: 5 }, 'burst: expected algorithm = "token-bucket" with it, got 5'],
  [{ slot_ttl: '1s' }, 'slot_ttl: expected algorithm = "concurrency" with it, got "1s"'],
  [{ ...SLOTS, slot_ttl: 'soon' }, `slot_ttl: expected ${DURATION}, got "soon"`],
  [
    { ...SLOTS, limits: '5/1m' },
    'limits: expected a number of requests at once from 1 to 999999, such as "20", got "5/1m"',
  ],
  [
    { limits: '5/1s, 9/1m', algorithm: 'token-bucket' },
    'limits: expected one limit, the rate at which the bucket is refilled, got "5/1s, 9/1m"',
  ],
  [
    { limits: '300/53w', algorithm: 'token-bucket' },
    'limits: expected at most 140 units with this window, got "300/53w"',
  ],
  [
    { limits: '1/53w', burst: 282, algorithm: 'token-bucket' },
    'burst: expected at most 140 units with this window, got 282',
  ],
  [{ limits: '100001/1d' }, `limits: expected limits up to ${LARGE}, got "100001/1d"`],
  [{ reserve: { sheddable: 0.2 } }, 'reserve.sheddable: unknown priority; expected one of critical, default'],
  [{ limits: '5/1s, 9/1m', reserve: { critical: 0.2 } }, 'reserve: expected one limit with it, got {"critical":0.2}'],
  [
    { limits: '4/1s', reserve: { critical: 0.5, default: 0.5 } },
    'reserve: expected shares that leave room for a request of cost 1, got {"critical":0.5,"default":0.5}',
  ],
  [
    { algorithm: 'sorted-set', actual_cost: { bytes: 0.001, 'json:/a': 2 } },
    'actual_cost: expected an algorithm other than "sorted-set" and "concurrency" with it, got "bytes + json:/a"',
  ],
  [{ refusal: { text: 'x' } }, 'refusal.text: unknown setting; expected one of status, type, detail, html, redirect'],
  ...[{ refusal: {} }, { penalty: '10m' }, FAILURES].map((keys): [Table, string] => [
    { ...keys, limits: undefined, priority: 'critical' },
    `limits: expected ${LIMITS}, got nothing`,
  ]),
  [{ penalty: 'forever' }, `penalty: expected ${DURATION}, got "forever"`],
  [{ penalty_after: 5 }, 'penalty_after: expected penalty, e.g. "10m", with it, got 5'],
  [{ ...SLOTS, penalty: '10m' }, 'penalty: expected an algorithm other than "concurrency" with it, got "10m"'],
  [
    { counts: 'new-identities', algorithm: 'quota' },
    'counts: expected algorithm = "sliding-window" with "new-identities", got "new-identities"',
  ],
  [{ ...FAILURES, ...SLOTS }, 'counts: expected "requests" with algorithm = "concurrency", got "failures"'],
  [{ ...FAILURES, reserve: { critical: 0.2 } }, 'reserve: expected counts = "requests" with it, got {"critical":0.2}'],
  ...['requests', 'new-identities', 'responses'].map((counts): [Table, string] => [
    { counts, failures: '401' },
    'failures: expected counts = "failures" or "successes" with it, got [401]',
  ]),
])('loadConfig() refuses a policy with %j', (keys, message) => {
  expect(readMessage({ UPSTREAM_URL, POLICIES: [{ ...A, ...keys }] })).toBe(`POLICIES[0].${message}`)
})

test.each<[Table, string]>([
  [{ limits: '10/1m' }, 'plan: expected limits as a table by plan with it, got '],
  [{ limits: '10/1m', plan: undefined }, 'default_plan: expected limits as a table by plan with it, got "free"'],
  [{ plan: undefined }, 'plan: expected "header:<name>" or "claim:<name or /pointer>", got nothing'],
  [{ default_plan: undefined }, 'default_plan: expected one of "free", "pro", got nothing'],
  [{ default_plan: 'trial' }, 'default_plan: expected one of "free", "pro", got "trial"'],
  [{ limits: {} }, 'limits: expected limits such as '],
  [{ limits: { 'a b': '1/1m' } }, 'limits: expected the name of a plan, up to 64 letters'],
  ...['{"constructor":"99/1m"}', '{"__proto__":"99/1m"}'].map((json): [Table, string] => [
    { limits: JSON.parse(json) },
    'limits: expected a name that no object has anyway, got ',
  ]),
  ...[true, 600, '600'].map((pro): [Table, string] => [
    { limits: { free: '10/1m', pro } },
    'limits.pro: expected limits such as ',
  ]),
  ...['600/1h', '600/1m, 9000/1d'].map((pro): [Table, string] => [
    { limits: { free: '10/1m', pro } },
    `limits.pro: expected the same windows in every plan, got "${pro}"`,
  ]),
  [{ limits: { free: '10/1m', pro: '100001/1m' } }, 'limits.pro: expected limits up to 100000'],
  [{ cost: 11 }, 'cost: expected at most the smallest limit of the policy, 10, got 11'],
  [{ limits: { free: '10/1m' }, reserve: { critical: 0.2 } }, 'reserve: expected limits without plans with it'],
])('loadConfig() refuses what makes no plans: %j', (keys, message) => {
  expect(() => load({ POLICIES: [{ ...PLANS, ...keys }] })).toThrow(`POLICIES[0].${message}`)
})
