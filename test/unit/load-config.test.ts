import { describe, expect, test } from 'vitest'
import { OptionError } from '../../src/core/options/option-error.ts'
import { findProblems } from '../../src/http/config/all-problems.ts'
import { type Config, type Environment, loadConfig, NEVER_EMPTY } from '../../src/http/config/load-config.ts'
import { VARIABLES } from '../../src/http/config/variables.ts'

const UPSTREAM_URL = 'https://api.example.com'
const OBJECTS = { LIMITS: { idFromName() {} } }
const REDIS = { UPSTASH_REDIS_REST_URL: 'https://eu1-x.upstash.io', UPSTASH_REDIS_REST_TOKEN: 'AXX+/=' }
const fetcher = { fetch: () => Promise.resolve(new Response()) }

function load(env: Environment): Config {
  return loadConfig({ UPSTREAM_URL, ...env })
}

function loadPolicy(policy: Readonly<Record<string, unknown>>): Config['policies'][number] | undefined {
  return load({ POLICIES: [{ name: 'a', limits: '5/1m', ...policy }] }).policies[0]
}

function messageOf(env: Environment): string {
  try {
    loadConfig(env)
  } catch (error) {
    expect(error).toBeInstanceOf(OptionError)
    return (error as OptionError).message
  }
  throw new Error('a configuration error was expected')
}

/** What a policy is where its table says nothing. */
const PLAIN = {
  onStoreError: 'local',
  counts: 'requests',
  failures: [],
  block: undefined,
  anonymous: { kind: 'ip' },
  burst: undefined,
  plans: undefined,
  priority: undefined,
  reserved: { critical: 0, default: 0, sheddable: 0 },
  actualCostHeader: undefined,
}

test.each<[Environment, Partial<OptionError>]>([
  [{}, { code: 'MISSING_OPTION', option: 'UPSTREAM_URL', path: [] }],
  [
    { UPSTREAM_URL, MODE: 'off' },
    { code: 'INVALID_OPTION', option: 'MODE' },
  ],
  [
    { UPSTREAM_URL, RATE_LIMIT: '1/1s' },
    { code: 'UNKNOWN_VARIABLE', option: 'RATE_LIMIT' },
  ],
  [
    { UPSTREAM_URL, POLICIES: [{ name: 'a', limits: '1/1s', max: 1 }] },
    { code: 'UNKNOWN_OPTION', option: 'POLICIES[0].max', variable: 'POLICIES', path: [0, 'max'] },
  ],
])('loadConfig(%j) throws an error with a stable code', (env, expected) => {
  expect(() => loadConfig(env)).toThrow(expect.objectContaining(expected))
})

test('loadConfig() has a default for everything but the upstream', () => {
  expect(loadConfig({ UPSTREAM_URL })).toEqual({
    upstreamUrl: 'https://api.example.com',
    upstreamTimeoutMs: 30_000,
    statistics: { isOn: false, logShare: 0, label: undefined },
    store: 'memory',
    upstreamSecret: undefined,
    forwardHeaders: [],
    redis: undefined,
    jwt: undefined,
    policies: [
      {
        name: 'default',
        algorithm: 'sliding-window',
        limits: [{ name: 'default-1m', limit: 60, windowMs: 60_000 }],
        by: [{ kind: 'token' }],
        match: undefined,
        ...PLAIN,
        cost: { kind: 'fixed', units: 1 },
        mode: 'enforce',
        ignoresCase: true,
      },
    ],
    ipv6Prefix: 64,
    exempt: [],
    literalInPaths: [],
    isShedding: false,
    headerFormat: 'draft-11',
    isSelfService: false,
    rewritesLocation: false,
    storeTimeoutMs: 500,
    localShare: 1,
    leases: undefined,
    identitySecret: undefined,
    keyPrefix: 'sluice',
  })
})

test.each<[Environment, Partial<Config>]>([
  [{ UPSTREAM_URL: 'http://127.0.0.1:9000' }, { upstreamUrl: 'http://127.0.0.1:9000' }],
  [{ UPSTREAM_URL: 'https://API.example.com:443/' }, { upstreamUrl: 'https://api.example.com' }],
  [{ UPSTREAM_URL: 'https://api.example.com/v1/' }, { upstreamUrl: 'https://api.example.com/v1' }],
  // With paths appended to it, an empty query or fragment would swallow them.
  [{ UPSTREAM_URL: 'https://api.example.com/v1?' }, { upstreamUrl: 'https://api.example.com/v1' }],
  [{ UPSTREAM_URL: 'https://api.example.com/v1#' }, { upstreamUrl: 'https://api.example.com/v1' }],
  [{ UPSTREAM_TIMEOUT_MS: 1 }, { upstreamTimeoutMs: 1 }],
  [{ UPSTREAM_TIMEOUT_MS: '3600000' }, { upstreamTimeoutMs: 3_600_000 }],
  [REDIS, { redis: { url: 'https://eu1-x.upstash.io', token: 'AXX+/=' }, store: 'redis' }],
  [OBJECTS, { store: 'durable-object' }],
  [{ ...REDIS, ...OBJECTS }, { store: 'redis' }],
  [{ ...REDIS, ...OBJECTS, STORE: 'durable-object' }, { store: 'durable-object' }],
  [{ ...REDIS, ...OBJECTS, STORE: 'memory' }, { store: 'memory' }],
  [
    { ...REDIS, ...OBJECTS, STORE_MIRROR: 'durable-object' },
    { store: 'redis', storeMirror: 'durable-object' },
  ],
  [{ ...REDIS, ...OBJECTS, STORE: 'durable-object', STORE_MIRROR: 'redis' }, { storeMirror: 'redis' }],
  [{ IPV6_PREFIX: '48' }, { ipv6Prefix: 48 }],
  [
    { EXEMPT: 'OPTIONS *, GET /healthz' },
    {
      exempt: [
        { method: 'OPTIONS', path: '/*' },
        { method: 'GET', path: '/healthz' },
      ],
    },
  ],
  [{ EXEMPT: ['/a,b'] }, { exempt: [{ method: '*', path: '/a,b' }] }],
  [{ LITERAL_IN_PATHS: '%2f ;' }, { literalInPaths: ['%2F', ';'] }],
  [{ SHEDDING: 'on' }, { isShedding: true }],
  [
    { CORS_ORIGINS: 'https://app.example.com, http://localhost:5173' },
    { corsOrigins: ['https://app.example.com', 'http://localhost:5173'] },
  ],
  [{ CORS_ORIGINS: ['*', 'https://xn--bcher-kva.example'] }, { corsOrigins: ['*', 'https://xn--bcher-kva.example'] }],
  [{ SELF_SERVICE: 'on' }, { isSelfService: true }],
  [{ REWRITE_LOCATION: 'on' }, { rewritesLocation: true }],
  [{ RATELIMIT_HEADERS: 'off' }, { headerFormat: 'off' }],
  [{ RATELIMIT_HEADERS: 'draft-6' }, { headerFormat: 'draft-6' }],
  [{ RATELIMIT_HEADERS: 'x-ratelimit' }, { headerFormat: 'x-ratelimit' }],
  [{ STORE_TIMEOUT_MS: '60000' }, { storeTimeoutMs: 60_000 }],
  [{ STORE_TIMEOUT_MS: 250 }, { storeTimeoutMs: 250 }],
  [{ LOCAL_SHARE: '0.25' }, { localShare: 0.25 }],
  [{ LOCAL_SHARE: '.5' }, { localShare: 0.5 }],
  [{ LOCAL_SHARE: 1 }, { localShare: 1 }],
  [{ IDENTITY_SECRET: 'sixteen or more.' }, { identitySecret: 'sixteen or more.' }],
  [{ KEY_PREFIX: 'eu:api_2.v-1' }, { keyPrefix: 'eu:api_2.v-1' }],
  // Where requests arrive, the scheme's default port is not part of the host.
  [
    { ADMIN_TOKEN: 'x'.repeat(32), ADMIN_HOST: 'Admin.example.com:443' },
    { admin: { token: expect.any(String), host: 'admin.example.com' } },
  ],
  [
    { ADMIN_TOKEN: 'x'.repeat(32), ADMIN_HOST: 'localhost:8787' },
    { admin: { token: expect.any(String), host: 'localhost:8787' } },
  ],
  [{}, { statistics: { isOn: false, logShare: 0, label: undefined } }],
  [
    { STATISTICS: 'on', LOG_REFUSALS: '0.01', CALLER_LABEL: 'header:X-Account-Name' },
    { statistics: { isOn: true, logShare: 0.01, label: { kind: 'header', name: 'x-account-name' } } },
  ],
  [{ SOME_OTHER_BINDING: {} }, { keyPrefix: 'sluice' }],
])('loadConfig() reads %j', (env, expected) => {
  expect(load(env)).toMatchObject(expected)
})

test('loadConfig() takes a service binding in place of UPSTREAM_URL', () => {
  expect(loadConfig({ UPSTREAM: fetcher }).upstreamUrl).toBeUndefined()
  expect(loadConfig({ UPSTREAM: fetcher, UPSTREAM_URL }).upstreamUrl).toBeUndefined()
})

describe('loadConfig() makes policies', () => {
  const table = [
    { name: 'login', limits: '20/1h, 5/1m', by: 'ip + header:X-Tenant', match: 'POST /login', cost: 2, mode: 'shadow' },
    { name: 'search', limits: '1000/1d', by: 'query:q', match: ['GET /search', '/find/*'], cost: '10' },
  ]
  const expected = [
    {
      name: 'login',
      algorithm: 'sliding-window',
      limits: [
        { name: 'login-1m', limit: 5, windowMs: 60_000 },
        { name: 'login-1h', limit: 20, windowMs: 3_600_000 },
      ],
      by: [{ kind: 'ip' }, { kind: 'header', name: 'x-tenant' }],
      match: [{ method: 'POST', path: '/login' }],
      ...PLAIN,
      cost: { kind: 'fixed', units: 2 },
      mode: 'shadow',
      ignoresCase: true,
    },
    {
      name: 'search',
      algorithm: 'sliding-window',
      limits: [{ name: 'search-1d', limit: 1000, windowMs: 86_400_000 }],
      by: [{ kind: 'query', name: 'q' }],
      match: [
        { method: 'GET', path: '/search' },
        { method: '*', path: '/find/*' },
      ],
      ...PLAIN,
      cost: { kind: 'fixed', units: 10 },
      mode: 'enforce',
      ignoresCase: true,
    },
  ]

  test('of a list of tables, or of the same list as JSON', () => {
    for (const POLICIES of [table, JSON.stringify(table)]) expect(load({ POLICIES }).policies).toEqual(expected)
  })

  test('beside the default one if RATE_LIMITS is set', () => {
    const { policies } = load({ RATE_LIMITS: '10/1s, 120/1m', POLICIES: table })
    expect(policies.map(({ name }) => name)).toEqual(['default', 'login', 'search'])
    expect(policies[0]?.limits.map(({ name }) => name)).toEqual(['default-1s', 'default-1m'])
  })

  test('named default only if RATE_LIMITS does not', () => {
    expect(load({ POLICIES: [{ name: 'default', limits: '5/1m' }] }).policies).toHaveLength(1)
  })

  test('of each algorithm, with what belongs to it', () => {
    expect(loadPolicy({ algorithm: 'token-bucket' })).toMatchObject({ burst: 5 })
    expect(loadPolicy({ algorithm: 'token-bucket', burst: 9 })).toMatchObject({ burst: 9 })
    const held = { algorithm: 'concurrency', limits: '20' }
    expect(loadPolicy(held)?.limits).toEqual([{ name: 'a', limit: 20, windowMs: 60_000 }])
    expect(loadPolicy({ ...held, limits: 20 })).toEqual(loadPolicy(held))
    expect(loadPolicy({ ...held, slot_ttl: '5m' })?.limits).toEqual([{ name: 'a', limit: 20, windowMs: 300_000 }])
    expect(loadPolicy({ limits: '100001/1d', allow_large_log: true })?.limits[0]?.limit).toBe(100_001)
    expect(loadPolicy({ limits: '6000000/30d', algorithm: 'quota' })?.limits[0]?.limit).toBe(6_000_000)
    expect(loadPolicy({ algorithm: 'quota', actual_cost: 'header:X-Actual' })?.actualCostHeader).toBe('x-actual')
    expect(loadPolicy({ cost: 'header:X-Cost', max_cost: 3 })?.cost).toEqual({ kind: 'header', name: 'x-cost', max: 3 })
  })

  test('with units reserved for the classes above', () => {
    const reserved = (reserve: unknown) => loadPolicy({ limits: '10/1s', reserve })?.reserved
    expect(reserved({ critical: 0.2 })).toEqual({ critical: 0, default: 2, sheddable: 2 })
    expect(reserved({ critical: 0.2, default: 0.25 })).toEqual({ critical: 0, default: 2, sheddable: 5 })
    expect(reserved({ default: 0.3 })).toEqual({ critical: 0, default: 0, sheddable: 3 })
  })

  test('that only classify', () => {
    const POLICIES = [{ name: 'a', match: '/a', priority: 'critical' }]
    expect(load({ POLICIES, SHEDDING: 'on' }).policies).toMatchObject([{ name: 'a', limits: [], priority: 'critical' }])
  })

  test.each([
    ['ip', { kind: 'ip' }],
    ['skip', { kind: 'skip' }],
    ['deny', { kind: 'deny', status: 401 }],
    ['deny:403', { kind: 'deny', status: 403 }],
    [undefined, { kind: 'ip' }],
  ])('with anonymous %s', (anonymous, expected) => {
    expect(loadPolicy(anonymous === undefined ? {} : { anonymous })?.anonymous).toEqual(expected)
  })

  test.each(['lower', 'trim', 'lower trim'])('with fold %j', (fold) => {
    expect(loadPolicy({ by: 'token+json:/email', fold })?.fold).toBe(fold)
    expect(() => loadPolicy({ by: 'token', fold })).toThrow(
      `POLICIES[0].fold: expected by "header:", "query:", "form:", "cookie:", "json:" or "claim:" with it, got "${fold}"`,
    )
    expect(() => loadPolicy({ by: 'query:q', fold: `${fold},` })).toThrow('expected "lower", "trim" or "lower trim"')
  })

  test('that deny whoever sends no body that says what they count by, unless they say otherwise', () => {
    const table = { limits: '5/1m', anonymous: undefined }
    const tables = ['form:user', 'json:/user', 'route+form:user', 'ip'].map((by) => ({ ...table, name: by[0], by }))
    const { policies } = load({
      ANONYMOUS: 'ip',
      POLICIES: [...tables, { ...table, name: 'x', by: 'form:u', anonymous: 'ip' }],
    })
    const denied = { kind: 'deny', status: 401 }
    expect(policies.map(({ anonymous }) => anonymous)).toEqual([denied, denied, denied, { kind: 'ip' }, { kind: 'ip' }])
  })

  test('that deny whoever lacks what they count by, with ANONYMOUS=deny', () => {
    const { policies } = load({ ANONYMOUS: 'deny', RATE_LIMITS: '5/1m', POLICIES: [{ ...A, anonymous: 'ip' }] })
    expect(policies.map(({ anonymous }) => anonymous)).toEqual([{ kind: 'deny', status: 401 }, { kind: 'ip' }])
  })

  test('whose cost may be all of the smallest limit', () => {
    expect(loadPolicy({ limits: '10/1s, 5/1m', cost: 5 })?.cost).toEqual({ kind: 'fixed', units: 5 })
  })

  test.each([
    [{ MODE: 'enforce' }, undefined, true],
    [{ MODE: 'enforce' }, 'shadow', false],
    [{ MODE: 'shadow' }, undefined, false],
    [{ MODE: 'shadow' }, 'shadow', false],
    // MODE=shadow never refuses, whatever a policy says.
    [{ MODE: 'shadow' }, 'enforce', false],
  ])('under %j with mode %s enforced: %s', (env, mode, enforced) => {
    const policy = { name: 'a', limits: '5/1m', ...(mode && { mode }) }
    expect(load({ ...env, POLICIES: [policy] }).policies[0]?.mode === 'enforce').toBe(enforced)
  })
})

const LIMITS =
  'limits such as "10/1s, 120/1m": limits from 1 to 1000000000, windows up to 53w, each once (units ms s m h d w; day week month year with "quota")'
const PATTERNS =
  'patterns such as "GET /users/:id, POST /upload/*, OPTIONS *" (a method of HTTP, "*" or nothing for all of them)'
const URL_EXPECTED = 'an http or https URL without credentials, query or fragment'
const BY =
  '"token", "ip", "route", "global", "header:<name>", "query:<name>", "form:<name>", "cookie:<name>", "json:</pointer>" or "claim:<name or /pointer>", joined with "+"'
const PASSED =
  'header fields that go on to the API: of letters, digits and "-", and none that a proxy replaces (X-Forwarded-… and the like)'
const ALGORITHMS = '"sliding-window" or "token-bucket" or "fixed-window" or "quota" or "sorted-set" or "concurrency"'
const KEYS =
  'name, limits, plan, default_plan, algorithm, by, fold, match, ignore_case, cost, max_cost, burst, time_zone, starts, slot_ttl, anonymous, priority, reserve, actual_cost, on_store_error, counts, failures, penalty, penalty_after, allow_large_log, refusal, mode'
const ORIGINS = 'origins such as https://app.example.com, or *'
const DURATION = 'a duration from 1ms to 53w such as "30s" (units ms s m h d w)'
const LIST = 'a list of tables, or JSON of one'

function withPolicy(policy: unknown): Environment {
  return { UPSTREAM_URL, POLICIES: [policy] }
}

const A = { name: 'a', limits: '5/1m' }

test.each<[string, Environment]>([
  ['UPSTREAM_URL: expected the origin of your API (or a service binding named UPSTREAM), got nothing', {}],
  [
    'UPSTREAM_URL: expected the origin of your API (or a service binding named UPSTREAM), got nothing',
    { UPSTREAM: 'https://api.example.com' },
  ],
  [`UPSTREAM_URL: expected ${URL_EXPECTED}, got "api.example.com"`, { UPSTREAM_URL: 'api.example.com' }],
  [`UPSTREAM_URL: expected ${URL_EXPECTED}, got "ftp://api.example.com"`, { UPSTREAM_URL: 'ftp://api.example.com' }],
  [`UPSTREAM_URL: expected ${URL_EXPECTED}, got "https://a.example/#b"`, { UPSTREAM_URL: 'https://a.example/#b' }],
  [
    'UPSTREAM_URL: expected the origin of your API (or a service binding named UPSTREAM), got nothing',
    { UPSTREAM_URL: '' },
  ],
  [`UPSTREAM_URL: expected ${URL_EXPECTED}, got 7`, { UPSTREAM_URL: 7 }],
  [`UPSTREAM_URL: expected ${URL_EXPECTED}, got {"toString":false}`, { UPSTREAM_URL: { toString: false } }],
  [
    `UPSTREAM_URL: expected ${URL_EXPECTED}, got a value not shown here`,
    { UPSTREAM_URL: 'https://user:password@api.example.com' },
  ],
  [
    'UPSTREAM_TIMEOUT_MS: expected an integer from 1 to 3600000, got "30s"',
    { UPSTREAM_URL, UPSTREAM_TIMEOUT_MS: '30s' },
  ],
  ...['http://a', 'https://.upstash.io', 'https://$x'].map((url): [string, Environment] => [
    'UPSTASH_REDIS_REST_URL: expected an http or https URL whose host has more than one letter, got a value not shown here',
    { UPSTREAM_URL, UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: 'x' },
  ]),
  [
    'UPSTASH_REDIS_REST_URL: expected the URL for UPSTASH_REDIS_REST_TOKEN, got nothing',
    { UPSTREAM_URL, UPSTASH_REDIS_REST_TOKEN: 'a' },
  ],
  [
    'UPSTASH_REDIS_REST_TOKEN: expected the token for UPSTASH_REDIS_REST_URL, got nothing',
    { UPSTREAM_URL, UPSTASH_REDIS_REST_URL: 'https://a.upstash.io' },
  ],
  [
    'UPSTASH_REDIS_REST_TOKEN: expected the REST token of the database, got a value not shown here',
    { UPSTREAM_URL, ...REDIS, UPSTASH_REDIS_REST_TOKEN: 'two words' },
  ],
  [`RATE_LIMITS: expected ${LIMITS}, got "0/1m"`, { UPSTREAM_URL, RATE_LIMITS: '0/1m' }],
  [`RATE_LIMITS: expected ${LIMITS}, got 60`, { UPSTREAM_URL, RATE_LIMITS: 60 }],
  [`POLICIES: expected ${LIST}, got "[{]"`, { UPSTREAM_URL, POLICIES: '[{]' }],
  [`POLICIES: expected ${LIST}, got {"name":"a"}`, { UPSTREAM_URL, POLICIES: { name: 'a' } }],
  [`POLICIES: expected ${LIST}, got []`, { UPSTREAM_URL, POLICIES: [] }],
  ['POLICIES[0]: expected a table, got "5/1m"', withPolicy('5/1m')],
  ['POLICIES[0].name: expected a value, got nothing', withPolicy({ limits: '5/1m' })],
  [`POLICIES[0].limits: expected ${LIMITS}; or else a priority, got nothing`, withPolicy({ name: 'a' })],
  [
    `POLICIES[0].by: expected ${PASSED}, got "header:x-remote-user"`,
    { ...withPolicy({ ...A, by: 'header:X-Remote-User' }), FORWARD_HEADERS: 'X-Remote-Email' },
  ],
  ...['X_Key', 'Connection', 'Sluice-Secret', 'X-Forwarded-For', 'X-A;X-B', 'é'].map((name): [string, Environment] => [
    `FORWARD_HEADERS: expected names of headers, e.g. "X-Remote-User, CF-Pseudo-IPv4", got "X-IP, ${name}"`,
    { UPSTREAM_URL, FORWARD_HEADERS: `X-IP, ${name}` },
  ]),
  [
    'RATE_LIMITS: expected limits up to 100000 (for more, a policy with algorithm = "quota", or one that allows a large log: allow_large_log, in code allowLargeLog), got "10/1s, 100001/1d"',
    { UPSTREAM_URL, RATE_LIMITS: '10/1s, 100001/1d' },
  ],
  ['POLICIES[1].name: expected a name used once, got "a"', { UPSTREAM_URL, POLICIES: [A, A] }],
  [
    'POLICIES[0].name: expected another name: RATE_LIMITS makes "default", got "default"',
    { UPSTREAM_URL, RATE_LIMITS: '5/1m', POLICIES: [{ ...A, name: 'default' }] },
  ],
  ['ANONYMOUS: expected "ip" or "deny", got "yes"', { UPSTREAM_URL, ANONYMOUS: 'yes' }],
  [`EXEMPT: expected ${PATTERNS}, got 5`, { UPSTREAM_URL, EXEMPT: 5 }],
  [
    'POLICIES[0].match: expected an item for each pattern (a sign that is meant as it stands is escaped, such as "%24" for "$"), ' +
      'got ["POST /login,/x"]',
    withPolicy({ ...A, match: ['POST /login,/x'] }),
  ],
  [
    'LITERAL_IN_PATHS: expected some of %2F %5C %25 %3F %23 ;, with spaces between, got "%2F,;"',
    { UPSTREAM_URL, LITERAL_IN_PATHS: '%2F,;' },
  ],
  [`EXEMPT: expected ${PATTERNS}, got " "`, { UPSTREAM_URL, EXEMPT: ' ' }],
  ...[
    ...['https://app.example.com/', 'https://app.example.com:443', 'https://App.example.com', 'app.example.com'],
    ...['https://*.example.com', 'null', 'https://a.example https://b.example', 'https://a.example,', 'file://', 5],
  ].map((CORS_ORIGINS): [string, Environment] => [
    `CORS_ORIGINS: expected ${ORIGINS}, got ${JSON.stringify(CORS_ORIGINS)}`,
    { UPSTREAM_URL, CORS_ORIGINS },
  ]),
  ['IPV6_PREFIX: expected an integer from 16 to 128, got 8', { UPSTREAM_URL, IPV6_PREFIX: 8 }],
  ['SHEDDING: expected "on" or "off", got true', { UPSTREAM_URL, SHEDDING: true }],
  ['MODE: expected "enforce" or "shadow", got "dry"', { UPSTREAM_URL, MODE: 'dry' }],
  [
    'RATELIMIT_HEADERS: expected "draft-11" or "draft-6" or "x-ratelimit" or "off", got "draft-12"',
    { UPSTREAM_URL, RATELIMIT_HEADERS: 'draft-12' },
  ],
  ['STORE_TIMEOUT_MS: expected an integer from 1 to 60000, got 60001', { UPSTREAM_URL, STORE_TIMEOUT_MS: 60_001 }],
  ['LOCAL_SHARE: expected a share above 0 and at most 1, got "0"', { UPSTREAM_URL, LOCAL_SHARE: '0' }],
  ['LOCAL_SHARE: expected a share above 0 and at most 1, got 1.01', { UPSTREAM_URL, LOCAL_SHARE: 1.01 }],
  ['LOCAL_SHARE: expected a share above 0 and at most 1, got "half"', { UPSTREAM_URL, LOCAL_SHARE: 'half' }],
  ['ON_STORE_ERROR: expected "local" or "open" or "closed", got "LOCAL"', { UPSTREAM_URL, ON_STORE_ERROR: 'LOCAL' }],
  [
    'IDENTITY_SECRET: expected at least 16 characters, got a value not shown here',
    { UPSTREAM_URL, IDENTITY_SECRET: 'fifteen letters' },
  ],
  ...['admin..example.com', 'admin.example.com:99999', 'a b'].map((host): [string, Environment] => [
    `ADMIN_HOST: expected a host such as "admin.example.com", got "${host}"`,
    { UPSTREAM_URL, ADMIN_TOKEN: 'x'.repeat(32), ADMIN_HOST: host },
  ]),
  [
    'KEY_PREFIX: expected up to 64 letters, digits, "_", ".", ":" or "-", got "a{b}"',
    { UPSTREAM_URL, KEY_PREFIX: 'a{b}' },
  ],
  ['STATISTICS: expected "on" or "off", got "yes"', { UPSTREAM_URL, STATISTICS: 'yes' }],
  ['LOG_REFUSALS: expected a share from 0 to 1, got "1%"', { UPSTREAM_URL, LOG_REFUSALS: '1%' }],
  ['LOG_REFUSALS: expected a share from 0 to 1, got 2', { UPSTREAM_URL, LOG_REFUSALS: 2 }],
  [
    'CALLER_LABEL: expected JWKS_URL or JWT_SECRET beside a claim, got "claim:company"',
    { UPSTREAM_URL, CALLER_LABEL: 'claim:company' },
  ],
  ...['Authorization', 'X-Api-Key', 'Cookie', 'CF-Connecting-IP', 'X-Forwarded-For', 'X-Session', 'X-Real-IP'].map(
    (name): [string, Environment] => [
      `CALLER_LABEL: expected "header:<name>" or "claim:<name>" of what holds neither a credential nor an address, got "header:${name}"`,
      { UPSTREAM_URL, CALLER_LABEL: `header:${name}` },
    ],
  ),
])('loadConfig() refuses with: %s', (message, env) => {
  expect(messageOf(env)).toBe(message)
})

test.each<[Record<string, unknown>, string]>([
  [{ prioritty: 1 }, `prioritty: unknown setting; expected one of ${KEYS}`],
  [{ name: 'a b' }, 'name: expected up to 64 letters, digits, "-" or "_", got "a b"'],
  [{ limits: '5 per minute' }, `limits: expected ${LIMITS}, got "5 per minute"`],
  [{ algorithm: 'leaky' }, `algorithm: expected ${ALGORITHMS}, got "leaky"`],
  [{ by: 'cookies:sid' }, `by: expected ${BY}, got "cookies:sid"`],
  [{ by: 'ip+header:X_Key' }, `by: expected ${PASSED}, got "header:x_key"`],
  [{ by: 'header:X-Real-IP' }, `by: expected ${PASSED}, got "header:x-real-ip"`],
  [{ cost: 'header:X-Forwarded-Cost', max_cost: 2 }, `cost: expected ${PASSED}, got "header:x-forwarded-cost"`],
  [{ match: 'login' }, `match: expected ${PATTERNS}, got "login"`],
  [{ match: ['/a', 'b'] }, `match: expected ${PATTERNS}, got ["/a","b"]`],
  [{ match: [] }, `match: expected ${PATTERNS}, got []`],
  [{ cost: 0 }, 'cost: expected an integer from 1 to 1000000000, got 0'],
  [{ cost: 6 }, 'cost: expected at most the smallest limit of the policy, 5, got 6'],
  [{ cost: 'x-cost' }, 'cost: expected an integer from 1 to 1000000000, or "header:<name>", got "x-cost"'],
  [{ cost: 'header:x-cost' }, 'max_cost: expected the highest cost that a request may name, got nothing'],
  [{ cost: 'header:x-cost', max_cost: 6 }, 'max_cost: expected at most the smallest limit of the policy, 5, got 6'],
  [{ max_cost: 5 }, 'max_cost: expected cost = "header:<name>" with it, got 5'],
  [{ burst: 5 }, 'burst: expected algorithm = "token-bucket" with it, got 5'],
  [{ slot_ttl: '1s' }, 'slot_ttl: expected algorithm = "concurrency" with it, got "1s"'],
  [{ limits: '5', algorithm: 'concurrency', slot_ttl: 'soon' }, `slot_ttl: expected ${DURATION}, got "soon"`],
  [
    { algorithm: 'concurrency' },
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
  [
    { limits: '100001/1d' },
    'limits: expected limits up to 100000 (for more, a policy with algorithm = "quota", or one that allows a large log: allow_large_log, in code allowLargeLog), got "100001/1d"',
  ],
  [
    { anonymous: 'deny:200' },
    'anonymous: expected "ip", "skip", "deny" or "deny:<status from 400 to 499, but not 407>", got "deny:200"',
  ],
  [{ priority: 'high' }, 'priority: expected "critical" or "default" or "sheddable", got "high"'],
  [{ reserve: 0.2 }, 'reserve: expected a table of shares, got 0.2'],
  [{ reserve: { sheddable: 0.2 } }, 'reserve.sheddable: unknown priority; expected one of critical, default'],
  [{ reserve: { critical: 1 } }, 'reserve.critical: expected a share above 0 and below 1, got 1'],
  [{ limits: '5/1s, 9/1m', reserve: { critical: 0.2 } }, 'reserve: expected one limit with it, got {"critical":0.2}'],
  [
    { limits: '4/1s', reserve: { critical: 0.5, default: 0.5 } },
    'reserve: expected shares that leave room for a request of cost 1, got {"critical":0.5,"default":0.5}',
  ],
  [{ algorithm: 'quota', actual_cost: 'x-actual' }, 'actual_cost: expected "header:<name>", got "x-actual"'],
  [
    { actual_cost: 'header:x-actual' },
    'actual_cost: expected algorithm = "token-bucket", "fixed-window" or "quota" with it: a log cannot be rewritten, got "header:x-actual"',
  ],
  [{ allow_large_log: 'yes' }, 'allow_large_log: expected true or false, got "yes"'],
  [{ mode: 'log' }, 'mode: expected "enforce" or "shadow", got "log"'],
  [{ refusal: 'Wait.' }, 'refusal: expected a table, got "Wait."'],
  [{ refusal: { text: 'x' } }, 'refusal.text: unknown setting; expected one of type, detail, html, redirect'],
  [{ refusal: { html: '' } }, 'refusal.html: expected up to 10000 characters, got ""'],
  [{ refusal: { detail: 5 } }, 'refusal.detail: expected up to 10000 characters, got 5'],
  ...['type', 'redirect'].flatMap((key) =>
    [
      ...[
        '/upgrade',
        'http://example.com/',
        'javascript:alert(1)',
        'https://user@example.com/',
        'https://example.com/é',
      ],
      ...[
        'https://example.com/ x',
        'https://a:b:c/',
        'https://',
        `https://example.com/${'x'.repeat(2_001)}`,
        'https:///x',
      ],
    ].map((url): [Record<string, unknown>, string] => {
      const shown = JSON.stringify(url).replace(/^(.{100}).+$/, '$1…')
      return [{ refusal: { [key]: url } }, `refusal.${key}: expected an https URL without credentials, got ${shown}`]
    }),
  ),
  [{ refusal: {}, limits: undefined, priority: 'critical' }, `limits: expected ${LIMITS}, got nothing`],
  [{ penalty: 'forever' }, `penalty: expected ${DURATION}, got "forever"`],
  [{ penalty: '10m', penalty_after: 0 }, 'penalty_after: expected an integer from 1 to 1000, got 0'],
  [{ penalty_after: 5 }, 'penalty_after: expected penalty, e.g. "10m", with it, got 5'],
  [
    { penalty: '10m', algorithm: 'concurrency', limits: '5' },
    'penalty: expected an algorithm other than "concurrency" with it, got "10m"',
  ],
  [{ penalty: '10m', limits: undefined, priority: 'critical' }, `limits: expected ${LIMITS}, got nothing`],
])('loadConfig() refuses a policy with %j', (keys, message) => {
  expect(messageOf(withPolicy({ ...A, ...keys }))).toBe(`POLICIES[0].${message}`)
})

test.each<unknown>([' ', ' 5', '5 ', '+5', '-5', '5.5', '1e3', '0x10', '0', 0, -1, 1.5, Number.NaN, true, null, [5]])(
  'loadConfig() takes %j for no integer',
  (value) => {
    expect(messageOf({ UPSTREAM_URL, STORE_TIMEOUT_MS: value })).toMatch(/^STORE_TIMEOUT_MS: expected an integer /)
  },
)

test.each([
  ['[{"name":"a","limits":"1/1s","limits":"9/1s"}]', 'limits', 0],
  ['[{"name":"a","limits":"1/1s"},{"name":"b","n\\u0061me":"c"}]', 'name', 1],
  ['[{"name":"a","limits":"1/1s","reserve":{"critical":0.1 , "critical" : 0.2}}]', 'critical', 0],
])('loadConfig() refuses a name that is twice in a table of JSON: %s', (POLICIES, name, index) => {
  expect(messageOf({ UPSTREAM_URL, POLICIES })).toContain(
    `POLICIES: expected each name once in a table, but "${name}" is there twice in [${index}], got "[{`,
  )
})

test('loadConfig() takes no text in JSON for a name, and the same name in two tables for no repetition', () => {
  const tables = [
    { name: 'name', limits: '1/1s', match: ['/name', '/{'], by: 'header:name' },
    { name: '"name":', limits: '1/1s' },
  ]
  // What is wrong with them is something else.
  expect(messageOf({ UPSTREAM_URL, POLICIES: JSON.stringify(tables) })).toMatch(/^POLICIES\[0\]\.match: /)
  const [first, second] = tables.map((table) => ({ ...table, match: ['/name'] }))
  expect(messageOf({ UPSTREAM_URL, POLICIES: JSON.stringify([first, second]) })).toMatch(/^POLICIES\[1\]\.name: /)
})

test.each([...NEVER_EMPTY])('loadConfig() refuses an empty %s', (name) => {
  expect(() => loadConfig({ UPSTREAM_URL, JWT_SECRET: 's'.repeat(32), RULES: 'on', [name]: '' })).toThrow(
    `${name}: expected`,
  )
})

test('loadConfig() takes an empty variable for none', () => {
  const names = VARIABLES.filter((name) => !NEVER_EMPTY.has(name))
  const empty = Object.fromEntries(names.map((name) => [name, '']))
  expect(loadConfig({ ...empty, UPSTREAM_URL })).toEqual(loadConfig({ UPSTREAM_URL }))
  expect(messageOf({ UPSTREAM_URL, ...REDIS, UPSTASH_REDIS_REST_TOKEN: '' })).toMatch(
    /^UPSTASH_REDIS_REST_TOKEN: expected the token for UPSTASH_REDIS_REST_URL, got nothing$/,
  )
  const { problems } = findProblems({ ...empty, MODE: 'x' })
  expect(problems.map(({ variable }) => variable)).toEqual(['MODE', 'UPSTREAM_URL'])
})

test('loadConfig() shows at most the first hundred characters of a value', () => {
  const message = messageOf({ UPSTREAM_URL: 'x'.repeat(1000) })
  expect(message).toBe(`UPSTREAM_URL: expected ${URL_EXPECTED}, got "${'x'.repeat(99)}…`)
})

test.each<Environment>([
  { UPSTREAM_URL, ...REDIS, UPSTASH_REDIS_REST_TOKEN: 'hush hush' },
  { UPSTREAM_URL, ...REDIS, UPSTASH_REDIS_REST_TOKEN: { hush: 'hush' } },
  { UPSTREAM_URL, IDENTITY_SECRET: 'hush' },
  { UPSTREAM_URL, IDENTITY_SECRET: ['hush'] },
  { UPSTREAM_URL: 'https://me:hush@api.example.com' },
  { UPSTREAM_URL: 'redis://default:hush@eu1-x.upstash.io:6379' },
  { UPSTREAM_URL, ...REDIS, UPSTASH_REDIS_REST_URL: 'rediss://default:hush@eu1-x.upstash.io:6379' },
  // Upstash takes a token in the query as well.
  { UPSTREAM_URL, ...REDIS, UPSTASH_REDIS_REST_URL: 'https://eu1-x.upstash.io?_token=hush' },
  // The two values that the console shows side by side, pasted the wrong way round.
  { UPSTREAM_URL, UPSTASH_REDIS_REST_URL: 'AXXhush', UPSTASH_REDIS_REST_TOKEN: 'https://eu1-x.upstash.io' },
])('loadConfig() shows no secret in the message about %j', (env) => {
  expect(messageOf(env)).not.toContain('hush')
})

test('loadConfig() leaves alone what it was given', () => {
  const env = { UPSTREAM_URL, ...REDIS, EXEMPT: ['/a'], POLICIES: [{ ...A, match: ['/b'] }] }
  loadConfig(env)
  const given = [env, env.EXEMPT, env.POLICIES, env.POLICIES[0], env.POLICIES[0]?.match]
  expect(given.map(Object.isFrozen)).toEqual(given.map(() => false))
})

test('loadConfig() gives each policy what it does without the store: its own word, else that of ON_STORE_ERROR', () => {
  const POLICIES = [
    { name: 'login', limits: '5/1m', on_store_error: 'closed' },
    { name: 'search', limits: '5/1m' },
  ]
  const { policies } = load({ RATE_LIMITS: '9/1m', POLICIES, ON_STORE_ERROR: 'open' })
  expect(policies.map(({ onStoreError }) => onStoreError)).toEqual(['open', 'closed', 'open'])
  expect(() => load({ POLICIES: [{ name: 'x', limits: '5/1m', on_store_error: 'ajar' }] })).toThrow(
    'POLICIES[0].on_store_error: expected "local" or "open" or "closed", got "ajar"',
  )
})

test('loadConfig() counts new identities by an exact log only', () => {
  const policy = { name: 'newcomers', limits: '20/1m', by: 'ip', counts: 'new-identities' }
  expect(load({ RATE_LIMITS: '9/1m', POLICIES: [policy] }).policies).toMatchObject([{}, { counts: 'new-identities' }])
  expect(() => load({ POLICIES: [{ ...policy, algorithm: 'quota' }] })).toThrow(
    'POLICIES[0].counts: expected algorithm = "sliding-window" with "new-identities", got "new-identities"',
  )
})

const PLANS = {
  name: 'api',
  limits: { free: '10/1m, 100/1d', pro: '600/1m, 9000/1d' },
  plan: 'header:X-Plan',
  default_plan: 'free',
}

test('loadConfig() reads limits by plan, which are those of the default plan where nobody says one', () => {
  const [policy] = load({ POLICIES: [PLANS] }).policies
  const names = ['api-1m', 'api-1d']
  expect(policy?.limits.map(({ name, limit }) => [name, limit])).toEqual([
    [names[0], 10],
    [names[1], 100],
  ])
  expect(policy?.plans).toMatchObject({ source: { kind: 'header', name: 'x-plan' }, byDefault: 'free' })
  expect(policy?.plans?.limits.pro).toMatchObject({ limits: [{ limit: 600, name: names[0] }, { limit: 9_000 }] })
})

test('loadConfig() gives each plan a bucket of its limit, or all the same burst', () => {
  const bucket = { ...PLANS, algorithm: 'token-bucket', limits: { free: '1/1s', pro: '60/1s' } }
  const bursts = (policy: object) =>
    Object.values(load({ POLICIES: [policy] }).policies[0]?.plans?.limits ?? {}).map(({ burst }) => burst)
  expect(bursts(bucket)).toEqual([1, 60])
  expect(bursts({ ...bucket, burst: 90 })).toEqual([90, 90])
  const slots = { ...PLANS, algorithm: 'concurrency', limits: { free: '1', pro: 20 } }
  expect(load({ POLICIES: [slots] }).policies[0]?.plans?.limits.pro?.limits).toEqual([
    { name: 'api', limit: 20, windowMs: 60_000 },
  ])
})

test.each<[Record<string, unknown>, string]>([
  [{ limits: '10/1m' }, 'plan: expected limits as a table by plan with it, got '],
  [{ limits: '10/1m', plan: undefined }, 'default_plan: expected limits as a table by plan with it, got "free"'],
  [{ plan: undefined }, 'plan: expected "header:<name>" or "claim:<name or /pointer>", got nothing'],
  [{ plan: 'query:plan' }, 'plan: expected "header:<name>" or "claim:<name or /pointer>", got "query:plan"'],
  [
    { plan: 'header:a+header:b' },
    'plan: expected "header:<name>" or "claim:<name or /pointer>", got "header:a+header:b"',
  ],
  [{ default_plan: undefined }, 'default_plan: expected one of "free", "pro", got nothing'],
  [{ default_plan: 'trial' }, 'default_plan: expected one of "free", "pro", got "trial"'],
  [{ default_plan: 'a b' }, 'default_plan: expected the name of a plan'],
  [{ limits: {} }, 'limits: expected limits such as '],
  [{ limits: { free: '10/1m', 'a b': '1/1m' } }, 'limits: expected limits such as '],
  [{ limits: { free: '10/1m', pro: 600 } }, 'limits.pro: expected limits such as '],
  [{ limits: { free: '10/1m', pro: true } }, 'limits: expected limits such as '],
  [{ limits: { free: '10/1m', constructor: '99/1m' } }, 'limits: expected limits such as '],
  [{ limits: JSON.parse('{ "free": "10/1m", "__proto__": "99/1m" }') }, 'limits: expected limits such as '],
  [{ limits: { free: '10/1m', pro: '600' } }, 'limits.pro: expected limits such as '],
  [{ limits: { free: '10/1m', pro: '600/1h' } }, 'limits.pro: expected the same windows in every plan, got "600/1h"'],
  [
    { limits: { free: '10/1m', pro: '600/1m, 9000/1d' } },
    'limits.pro: expected the same windows in every plan, got "600/1m, 9000/1d"',
  ],
  [{ limits: { free: '10/1m', pro: '100001/1m' } }, 'limits.pro: expected limits up to 100000'],
  [{ cost: 11 }, 'cost: expected at most the smallest limit of the policy, 10, got 11'],
  [{ limits: { free: '10/1m' }, reserve: { critical: 0.2 } }, 'reserve: expected limits without plans with it'],
])('loadConfig() refuses what makes no plans: %j', (keys, message) => {
  expect(() => load({ POLICIES: [{ ...PLANS, ...keys }] })).toThrow(`POLICIES[0].${message}`)
})

const FAILURES = { name: 'a', limits: '5/1m', counts: 'failures' }

test.each<[unknown, readonly number[]]>([
  ['401', [401]],
  [401, [401]],
  ['401, 403', [401, 403]],
  [
    ['401', 403],
    [401, 403],
  ],
  ['429,401,401', [429, 401]],
])('loadConfig() reads failures = %j', (failures, statuses) => {
  expect(load({ POLICIES: [{ ...FAILURES, failures }] }).policies[0]?.failures).toEqual(statuses)
})

test('loadConfig() takes a class of statuses for all of it, but for 429, and 4xx if nothing is said', () => {
  const failuresOf = (failures?: string) => load({ POLICIES: [{ ...FAILURES, failures }] }).policies[0]?.failures
  const clientErrors = Array.from({ length: 100 }, (_, index) => 400 + index).filter((status) => status !== 429)
  expect(failuresOf()).toEqual(clientErrors)
  expect(failuresOf('4xx')).toEqual(clientErrors)
  expect(failuresOf('4XX, 429')).toEqual([...clientErrors, 429])
  expect(failuresOf('5xx')).toHaveLength(100)
})

test.each(['', '4', '99', '199', '600', '1xx', '6xx', '40x', '401;403', 'x', '401,', [[]], [[401.5]], null])(
  'loadConfig() refuses failures = %j',
  (failures) => {
    expect(() => load({ POLICIES: [{ ...FAILURES, failures }] })).toThrow(
      'POLICIES[0].failures: expected statuses from 200 to 599 and classes of them, e.g. "401, 403" or "4xx", got ',
    )
  },
)

test.each<[Record<string, unknown>, string]>([
  [{ algorithm: 'concurrency', limits: '5' }, 'counts: expected "requests" with algorithm = "concurrency"'],
  [{ reserve: { critical: 0.2 } }, 'reserve: expected counts = "requests" with it'],
  [{ algorithm: 'quota', actual_cost: 'header:x-cost' }, 'actual_cost: expected counts = "requests" with it'],
  [{ limits: undefined, priority: 'critical' }, 'limits: expected limits such as'],
  [{ counts: 'requests', failures: '401' }, 'failures: expected counts = "failures" with it'],
  [{ counts: 'failure' }, 'counts: expected "requests" or "new-identities" or "failures"'],
])('loadConfig() refuses what does not go with counting failures: %j', (keys, message) => {
  expect(() => load({ POLICIES: [{ ...FAILURES, ...keys }] })).toThrow(`POLICIES[0].${message}`)
})

test.each([
  ['off', undefined],
  ['auto', 'auto'],
  ['20', 20],
  [2, 2],
])('loadConfig() reads LEASES=%j', (LEASES, leases) => {
  expect(load({ LEASES }).leases).toBe(leases)
})

test.each([
  ['STORE', 'redis', OBJECTS, 'UPSTASH_REDIS_REST_URL and its token with it'],
  ['STORE', 'durable-object', REDIS, 'a binding LIMITS of Durable Objects with it'],
  ['STORE', 'Redis', REDIS, '"redis" or "durable-object" or "memory"'],
  ['STORE_MIRROR', 'redis', OBJECTS, 'UPSTASH_REDIS_REST_URL and its token with it'],
  ['STORE_MIRROR', 'durable-object', REDIS, 'a binding LIMITS of Durable Objects with it'],
  ['STORE_MIRROR', 'redis', { ...REDIS, ...OBJECTS }, 'another store than STORE'],
  ['STORE_MIRROR', 'memory', { ...REDIS, ...OBJECTS }, '"redis" or "durable-object"'],
] as const)('loadConfig() refuses %s=%s where it cannot be had', (name, store, env, expected) => {
  expect(() => loadConfig({ UPSTREAM_URL, ...env, [name]: store })).toThrow(
    `${name}: expected ${expected}, got "${store}"`,
  )
})

test('rules are followed if they are on', () => {
  expect(load({ RULES: 'on' }).rules).toEqual({ refreshMs: 5_000, isShadow: false })
  expect(load({ RULES: 'on', RULES_REFRESH_MS: '100', MODE: 'shadow' }).rules).toEqual({
    ...{ refreshMs: 100, isShadow: true },
  })
  expect(load({}).rules).toBeUndefined()
})

test.each([1, '0', 'on', 10_001, '2.5'])('loadConfig() refuses LEASES=%j', (LEASES) => {
  expect(() => load({ LEASES })).toThrow('LEASES: expected "off", "auto" or an integer from 2 to 10000, got ')
})

test.each([
  ['RATE_LIMIT', 'RATE_LIMITS'],
  ['RATELIMITS', 'RATE_LIMITS'],
  ['POLICY', 'POLICIES'],
  ['ANONYMUOS', 'ANONYMOUS'],
  ['UPSTREAM_TIMEOUT', 'UPSTREAM_TIMEOUT_MS'],
])('loadConfig() refuses %s, which is close to %s', (name, meant) => {
  expect(() => load({ [name]: '9/1m' })).toThrow(`${name}: unknown variable; did you mean ${meant}?`)
  // A binding is the operator's own.
  expect(() => load({ [name]: fetcher })).not.toThrow()
})

test('loadConfig() shows no secret under a name that is close to that of one', () => {
  expect(() => load({ IDENTITY_SECERT: 'hush' })).toThrow(
    /^IDENTITY_SECERT: unknown variable; did you mean IDENTITY_SECRET\?$/,
  )
})

test.each([
  'NODE',
  'MODEL',
  'KV_PREFIX',
  'LOCAL_STORE',
  'RATE_LIMITER',
  'rate_limit',
  'CF_VERSION_METADATA',
  'LIMIT',
  'UPSTREAM',
])('loadConfig() leaves %s alone', (name) => {
  expect(load({ [name]: 'x' }).keyPrefix).toBe('sluice')
})

test('loadConfig() makes no default policy with RATE_LIMITS=off, which needs POLICIES', () => {
  expect(load({ RATE_LIMITS: 'off', POLICIES: [A] }).policies.map(({ name }) => name)).toEqual(['a'])
  expect(() => load({ RATE_LIMITS: 'off' })).toThrow('RATE_LIMITS: expected POLICIES beside "off", got "off"')
  expect(() => load({ RATE_LIMITS: ' ', POLICIES: [A] })).toThrow(`RATE_LIMITS: expected ${LIMITS}, got " "`)
})

test('loadConfig() refuses policies of which none could ever be charged', () => {
  expect(() => load({ POLICIES: [{ name: 'a', priority: 'critical' }] })).toThrow(
    'POLICIES: expected at least one policy with limits',
  )
  const newcomers = { name: 'n', limits: '20/1m', by: 'ip', counts: 'new-identities' }
  const expected =
    'POLICIES[0].counts: expected a "sliding-window" policy beside it that tells callers apart, and applies to some of the same requests, got "new-identities"'
  expect(() => load({ POLICIES: [newcomers] })).toThrow(expected)
  expect(() =>
    load({ POLICIES: [newcomers, { ...A, by: 'global' }, { ...A, name: 'b', algorithm: 'quota' }] }),
  ).toThrow(expected)
  const elsewhere = [
    { ...newcomers, match: 'POST /login' },
    { ...A, match: 'GET /users/:id' },
  ]
  expect(() => load({ POLICIES: elsewhere })).toThrow(expected)
  expect(() => load({ POLICIES: [...elsewhere, { ...A, name: 'b', match: '/login' }] })).not.toThrow()
})

const JWKS_URL = 'https://id.example.com/jwks.json'
const JWT_SECRET = 'a secret of thirty-two characters'
const BY_CLAIM = [{ name: 'users', limits: '5/1m', by: 'claim:sub' }]
const BY_PLAN = [
  { name: 'users', limits: { free: '5/1m', pro: '9/1m' }, plan: 'claim:/account/plan', default_plan: 'free' },
]

test('loadConfig() reads how tokens are verified', () => {
  const nothing = { issuer: undefined, audience: undefined }
  expect(load({ POLICIES: BY_CLAIM, JWKS_URL }).jwt).toEqual({ keys: { kind: 'jwks', url: JWKS_URL }, ...nothing })
  expect(
    load({ POLICIES: BY_PLAN, JWT_SECRET, JWT_ISSUER: 'me', JWT_AUDIENCE: 'https://api.example.com' }).jwt,
  ).toEqual({
    keys: { kind: 'secret', secret: JWT_SECRET },
    issuer: 'me',
    audience: 'https://api.example.com',
  })
})

test.each([
  'http://localhost:8080/keys',
  'http://127.0.0.1/keys',
  'http://[::1]:1/keys',
  'https://id.example.com/?p=a',
])('loadConfig() takes keys from %s', (url) => {
  expect(load({ POLICIES: BY_CLAIM, JWKS_URL: url }).jwt?.keys).toEqual({ kind: 'jwks', url })
})

test.each<[Environment, string]>([
  [{ POLICIES: BY_CLAIM }, 'POLICIES[0].by: expected JWKS_URL or JWT_SECRET beside a claim, got "claim:sub"'],
  [
    { POLICIES: BY_PLAN },
    'POLICIES[0].plan: expected JWKS_URL or JWT_SECRET beside a claim, got "claim:/account/plan"',
  ],
  [
    { POLICIES: BY_CLAIM, JWKS_URL, JWT_SECRET },
    'JWT_SECRET: expected none beside JWKS_URL, got a value not shown here',
  ],
  [{ JWKS_URL }, `JWKS_URL: expected a policy with by or plan = "claim:<name>" beside it, got "${JWKS_URL}"`],
  [
    { JWT_SECRET },
    'JWT_SECRET: expected a policy with by or plan = "claim:<name>" beside it, got a value not shown here',
  ],
  [{ JWT_ISSUER: 'me' }, 'JWT_ISSUER: expected a policy with by or plan = "claim:<name>" beside it, got "me"'],
  [{ JWT_AUDIENCE: 'me' }, 'JWT_AUDIENCE: expected a policy with by or plan = "claim:<name>" beside it, got "me"'],
  [
    { POLICIES: BY_CLAIM, JWT_SECRET: 'thirty-one characters: too few.' },
    'JWT_SECRET: expected at least 32 characters, got a value not shown here',
  ],
  [
    { POLICIES: BY_CLAIM, JWKS_URL, JWT_ISSUER: 'a b' },
    'JWT_ISSUER: expected up to 1000 characters without spaces, got',
  ],
  ...[
    'http://id.example.com/keys',
    'http://localhost.example.com/',
    'https://id.example.com/#a',
    'ftp://x',
    'https://',
  ].map((url): [Environment, string] => [
    { POLICIES: BY_CLAIM, JWKS_URL: url },
    'JWKS_URL: expected an https URL without credentials or fragment (http only to this machine), got',
  ]),
  [
    { POLICIES: BY_CLAIM, JWKS_URL: 'https://me:hush@id.example.com/' },
    'JWKS_URL: expected an https URL without credentials or fragment (http only to this machine), got a value not shown here',
  ],
  [{ POLICIES: [{ ...BY_CLAIM[0], by: 'claim:user.id' }], JWKS_URL }, 'POLICIES[0].by: expected "token"'],
])('loadConfig() refuses tokens that are verified otherwise: %j', (env, message) => {
  expect(messageOf({ UPSTREAM_URL, ...env })).toContain(message)
})

test.each([
  [{ penalty: '10m' }, { durationMs: 600_000, after: 1 }],
  [
    { penalty: '1h', penalty_after: 5 },
    { durationMs: 3_600_000, after: 5 },
  ],
  [
    { penalty: '90s', penalty_after: '1000', algorithm: 'token-bucket' },
    { durationMs: 90_000, after: 1_000 },
  ],
  [{}, undefined],
])('loadConfig() reads %j', (keys, block) => {
  expect(load({ POLICIES: [{ name: 'a', limits: '5/1m', ...keys }] }).policies[0]?.penalty).toEqual(block)
})

test('loadConfig() reads a secret for the API, and shows it nowhere', () => {
  const UPSTREAM_SECRET = 'a-secret-of-thirty-two-characters'
  expect(load({ UPSTREAM_SECRET }).upstreamSecret).toBe(UPSTREAM_SECRET)
  for (const secret of [
    'thirty-one-characters-too-few..',
    'a secret of thirty-two characters',
    `${UPSTREAM_SECRET}\n`,
  ]) {
    expect(messageOf({ UPSTREAM_URL, UPSTREAM_SECRET: secret })).toBe(
      'UPSTREAM_SECRET: expected at least 32 characters of ASCII, none of them a space, got a value not shown here',
    )
  }
})

test('loadConfig() lets no policy count by the secret for the API', () => {
  const by = 'header:sluice-secret'
  expect(() => load({ POLICIES: [{ name: 'a', limits: '5/1m', by }] })).toThrow(
    /^POLICIES\[0\]\.by: expected header fields/,
  )
})
