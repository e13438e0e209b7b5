/** What `loadConfig()` makes of an environment, and the contradictions in it that it refuses. */
import { expect, test } from 'vitest'
import type { OptionError } from '../../src/core/options/option-error.ts'
import { findProblems } from '../../src/http/config/all-problems.ts'
import { type Config, type Environment, loadConfig, NEVER_EMPTY } from '../../src/http/config/load-config.ts'
import { VARIABLES } from '../../src/http/config/variables.ts'
import {
  A,
  LARGE,
  LIMITS,
  load,
  OBJECTS,
  PASSED,
  PLAIN,
  PLANS,
  REDIS,
  readMessage,
  toPattern,
  UPSTREAM_URL,
} from '../support/config.ts'

const fetcher = { fetch: () => Promise.resolve(new Response()) }

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
    { UPSTREAM_URL, POLICIES: [{ ...A, max: 1 }] },
    { code: 'UNKNOWN_OPTION', option: 'POLICIES[0].max', variable: 'POLICIES', path: [0, 'max'] },
  ],
])('loadConfig(%j) throws an error with a stable code', (env, expected) => {
  expect(() => loadConfig(env)).toThrow(expect.objectContaining(expected))
})

test('loadConfig() has a default for everything but the upstream', () => {
  expect(loadConfig({ UPSTREAM_URL })).toEqual({
    upstreamUrl: 'https://api.example.com',
    upstreamTimeoutMs: 30_000,
    statistics: { isOn: false, keepsRecent: false, logShare: 0 },
    store: 'memory',
    forwardHeaders: [],
    policies: [
      {
        ...PLAIN,
        name: 'default',
        limits: [{ name: 'default-1m', limit: 60, windowMs: 60_000 }],
        by: [{ kind: 'token' }],
        cost: { kind: 'fixed', units: 1 },
      },
    ],
    ipv6Prefix: 64,
    exempt: [],
    literalInPaths: [],
    mergesParameters: true,
    isShedding: false,
    onStoreError: 'local',
    isShadow: false,
    headerFormat: 'draft-11',
    isSelfService: false,
    rewritesLocation: false,
    storeTimeoutMs: 500,
    localShare: 1,
    keyPrefix: 'sluice',
  })
})

const ADMIN_TOKEN = 'x'.repeat(32)
const CORS = ['https://app.example.com', 'http://localhost:5173', 'https://xn--bcher-kva.example', '*']
const UPSTREAM_SECRET = 'a-secret-of-thirty-two-characters'

test.each<[Environment, Partial<Config>]>([
  [{ UPSTREAM_URL: 'http://127.0.0.1:9000' }, { upstreamUrl: 'http://127.0.0.1:9000' }],
  [{ UPSTREAM_URL: 'https://API.example.com:443/' }, { upstreamUrl: 'https://api.example.com' }],
  [{ UPSTREAM_URL: 'https://api.example.com/v1/' }, { upstreamUrl: 'https://api.example.com/v1' }],
  // With paths appended to it, an empty query or fragment would swallow them.
  [{ UPSTREAM_URL: 'https://api.example.com/v1?' }, { upstreamUrl: 'https://api.example.com/v1' }],
  [{ UPSTREAM_URL: 'https://api.example.com/v1#' }, { upstreamUrl: 'https://api.example.com/v1' }],
  [{ UPSTREAM_TIMEOUT_MS: 1 }, { upstreamTimeoutMs: 1 }],
  [{ UPSTREAM_TIMEOUT_MS: '3600000' }, { upstreamTimeoutMs: 3_600_000 }],
  [{ UPSTREAM_SECRET }, { upstreamSecret: UPSTREAM_SECRET }],
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
  [{ EXEMPT: 'OPTIONS *, GET /healthz' }, { exempt: ['OPTIONS /*', 'GET /healthz'].map(toPattern) }],
  [{ EXEMPT: ['/a,b'] }, { exempt: [toPattern('* /a,b')] }],
  [{ LITERAL_IN_PATHS: '%2f ;' }, { literalInPaths: ['%2F', ';'] }],
  [{ SHEDDING: 'on' }, { isShedding: true }],
  [{ CORS_ORIGINS: CORS.join(', ') }, { corsOrigins: CORS }],
  [{ CORS_ORIGINS: CORS }, { corsOrigins: CORS }],
  [{ SELF_SERVICE: 'on' }, { isSelfService: true }],
  [{ REWRITE_LOCATION: 'on' }, { rewritesLocation: true }],
  ...(['off', 'draft-6', 'x-ratelimit'] as const).map((format): [Environment, Partial<Config>] => [
    { RATELIMIT_HEADERS: format },
    { headerFormat: format },
  ]),
  [{ STORE_TIMEOUT_MS: '60000' }, { storeTimeoutMs: 60_000 }],
  [{ STORE_TIMEOUT_MS: 250 }, { storeTimeoutMs: 250 }],
  [{ LOCAL_SHARE: '0.25' }, { localShare: 0.25 }],
  [{ LOCAL_SHARE: '.5' }, { localShare: 0.5 }],
  [{ LOCAL_SHARE: 1 }, { localShare: 1 }],
  [{ LEASES: 'off' }, { leases: undefined }],
  [{ LEASES: 'auto' }, { leases: 'auto' }],
  [{ LEASES: '20' }, { leases: 20 }],
  [{ LEASES: 2 }, { leases: 2 }],
  [{ IDENTITY_SECRET: 'sixteen or more.' }, { identitySecret: 'sixteen or more.' }],
  [{ KEY_PREFIX: 'eu:api_2.v-1' }, { keyPrefix: 'eu:api_2.v-1' }],
  // Where requests arrive, the scheme's default port is not part of the host.
  [{ ADMIN_TOKEN, ADMIN_HOST: 'Admin.example.com:443' }, { admin: { token: ADMIN_TOKEN, host: 'admin.example.com' } }],
  [{ ADMIN_TOKEN, ADMIN_HOST: 'localhost:8787' }, { admin: { token: ADMIN_TOKEN, host: 'localhost:8787' } }],
  [{}, { statistics: { isOn: false, keepsRecent: false, logShare: 0, label: undefined }, rules: undefined }],
  [
    { STATISTICS: 'on', LOG_REFUSALS: '0.01', CALLER_LABEL: 'header:X-Account-Name' },
    {
      statistics: { isOn: true, keepsRecent: true, logShare: 0.01, label: { kind: 'header', name: 'x-account-name' } },
    },
  ],
  [{ RULES: 'on' }, { rules: { refreshMs: 5_000, isShadow: false } }],
  [{ RULES: 'on', RULES_REFRESH_MS: '100', MODE: 'shadow' }, { rules: { refreshMs: 100, isShadow: true } }],
  [{ UPSTREAM: fetcher }, { upstreamUrl: undefined }],
  [{ SOME_OTHER_BINDING: {} }, { keyPrefix: 'sluice' }],
])('loadConfig() reads %j', (env, expected) => {
  expect(load(env)).toMatchObject(expected)
})

test('loadConfig() takes a service binding in place of UPSTREAM_URL', () => {
  expect(loadConfig({ UPSTREAM: fetcher }).upstreamUrl).toBeUndefined()
})

const JWKS_URL = 'https://id.example.com/jwks.json'
const JWT_SECRET = 'a secret of thirty-two characters'
const BY_CLAIM = [{ name: 'users', limits: '5/1m', by: 'claim:sub' }]
const BY_PLAN = [{ ...PLANS, plan: 'claim:/account/plan' }]

test('loadConfig() reads how tokens are verified', () => {
  const nothing = { issuer: undefined, audience: undefined }
  const loopback = ['http://localhost:8080/keys', 'http://127.0.0.1/keys', 'http://[::1]:1/keys']
  for (const url of [JWKS_URL, ...loopback, 'https://id.example.com/?p=a']) {
    expect(load({ POLICIES: BY_CLAIM, JWKS_URL: url }).jwt).toEqual({ keys: { kind: 'jwks', url }, ...nothing })
  }
  const { jwt } = load({ POLICIES: BY_PLAN, JWT_SECRET, JWT_ISSUER: 'me', JWT_AUDIENCE: 'https://api.example.com' })
  const keys = { kind: 'secret', secret: JWT_SECRET }
  expect(jwt).toEqual({ keys, issuer: 'me', audience: 'https://api.example.com' })
})

const UPSTREAM_EXPECTED = 'UPSTREAM_URL: expected the origin of your API (or a service binding named UPSTREAM)'
const NO_CLAIM = 'expected a policy with by or plan = "claim:<name>" beside it'
const IN_REDIS = 'UPSTASH_REDIS_REST_URL and its token with it'
const IN_OBJECTS = 'a binding LIMITS of Durable Objects with it'
const UNDETECTED =
  'POLICIES[0].counts: expected a "sliding-window" policy beside it that tells callers apart, and applies to some of the same requests, got "new-identities"'
const NEW = { name: 'n', limits: '20/1m', by: 'ip', counts: 'new-identities' }
const ELSEWHERE = [
  { ...NEW, match: 'POST /login' },
  { ...A, match: 'GET /users/:id' },
]

test.each<[string, Environment]>([
  [`${UPSTREAM_EXPECTED}, got nothing`, { UPSTREAM_URL: undefined }],
  [`${UPSTREAM_EXPECTED}, got nothing`, { UPSTREAM_URL: undefined, UPSTREAM: 'https://api.example.com' }],
  [`${UPSTREAM_EXPECTED}, got nothing`, { UPSTREAM_URL: '' }],
  [
    'UPSTASH_REDIS_REST_URL: expected the URL for UPSTASH_REDIS_REST_TOKEN, got nothing',
    { UPSTASH_REDIS_REST_TOKEN: 'a' },
  ],
  ...[{}, { UPSTASH_REDIS_REST_TOKEN: '' }].map((token): [string, Environment] => [
    'UPSTASH_REDIS_REST_TOKEN: expected the token for UPSTASH_REDIS_REST_URL, got nothing',
    { UPSTASH_REDIS_REST_URL: 'https://a.upstash.io', ...token },
  ]),
  [`STORE: expected ${IN_REDIS}, got "redis"`, { ...OBJECTS, STORE: 'redis' }],
  [`STORE: expected ${IN_OBJECTS}, got "durable-object"`, { ...REDIS, STORE: 'durable-object' }],
  [`STORE_MIRROR: expected ${IN_REDIS}, got "redis"`, { ...OBJECTS, STORE_MIRROR: 'redis' }],
  [`STORE_MIRROR: expected ${IN_OBJECTS}, got "durable-object"`, { ...REDIS, STORE_MIRROR: 'durable-object' }],
  ['STORE_MIRROR: expected another store than STORE, got "redis"', { ...REDIS, ...OBJECTS, STORE_MIRROR: 'redis' }],
  [
    'METRICS_TOKEN: expected STATISTICS = "on" beside it, got a value not shown here',
    { METRICS_TOKEN: 'a-secret-of-thirty-two-characters' },
  ],
  ['POLICIES[0]: expected a table, got "5/1m"', { POLICIES: ['5/1m'] }],
  ['POLICIES[0].name: expected up to 64 letters, digits, "-" or "_", got nothing', { POLICIES: [{ limits: '5/1m' }] }],
  [`POLICIES[0].limits: expected ${LIMITS}; or else a priority, got nothing`, { POLICIES: [{ name: 'a' }] }],
  [`RATE_LIMITS: expected limits up to ${LARGE}, got "10/1s, 100001/1d"`, { RATE_LIMITS: '10/1s, 100001/1d' }],
  ['RATE_LIMITS: expected POLICIES beside "off", got "off"', { RATE_LIMITS: 'off' }],
  [`RATE_LIMITS: expected ${LIMITS}, got " ": "" lacks a window`, { RATE_LIMITS: ' ', POLICIES: [A] }],
  [
    `POLICIES[0].by: expected ${PASSED}, got "header:x-remote-user"`,
    { POLICIES: [{ ...A, by: 'header:X-Remote-User' }], FORWARD_HEADERS: 'X-Remote-Email' },
  ],
  ['POLICIES[1].name: expected a name used once, got "a"', { POLICIES: [A, A] }],
  [
    'POLICIES[0].name: expected another name: RATE_LIMITS makes "default", got "default"',
    { RATE_LIMITS: '5/1m', POLICIES: [{ ...A, name: 'default' }] },
  ],
  [
    'POLICIES: expected at least one policy with limits (or RATE_LIMITS, or SHEDDING="on"), got ["a"]',
    { POLICIES: [{ name: 'a', priority: 'critical' }] },
  ],
  [UNDETECTED, { POLICIES: [NEW] }],
  [UNDETECTED, { POLICIES: [NEW, { ...A, by: 'global' }, { ...A, name: 'b', algorithm: 'quota' }] }],
  [UNDETECTED, { POLICIES: ELSEWHERE }],
  ['POLICIES[0].by: expected JWKS_URL or JWT_SECRET beside a claim, got "claim:sub"', { POLICIES: BY_CLAIM }],
  [
    'POLICIES[0].plan: expected JWKS_URL or JWT_SECRET beside a claim, got "claim:/account/plan"',
    { POLICIES: BY_PLAN },
  ],
  [
    'CALLER_LABEL: expected JWKS_URL or JWT_SECRET beside a claim, got "claim:company"',
    { CALLER_LABEL: 'claim:company' },
  ],
  [
    'JWT_SECRET: expected none beside JWKS_URL, got a value not shown here',
    { POLICIES: BY_CLAIM, JWKS_URL, JWT_SECRET },
  ],
  [`JWKS_URL: ${NO_CLAIM}, got "${JWKS_URL}"`, { JWKS_URL }],
  [`JWT_SECRET: ${NO_CLAIM}, got a value not shown here`, { JWT_SECRET }],
  [`JWT_ISSUER: ${NO_CLAIM}, got "me"`, { JWT_ISSUER: 'me' }],
  [`JWT_AUDIENCE: ${NO_CLAIM}, got "me"`, { JWT_AUDIENCE: 'me' }],
])('loadConfig() refuses with: %s', (message, env) => {
  expect(readMessage({ UPSTREAM_URL, ...env })).toBe(message)
})

test('loadConfig() takes one policy that detects new identities in some of the same requests', () => {
  expect(() => load({ POLICIES: [...ELSEWHERE, { ...A, name: 'b', match: '/login' }] })).not.toThrow()
})

test.each([
  ['[{"name":"a","limits":"1/1s","limits":"9/1s"}]', 'limits', 0],
  ['[{"name":"a","limits":"1/1s"},{"name":"b","n\\u0061me":"c"}]', 'name', 1],
  ['[{"name":"a","limits":"1/1s","reserve":{"critical":0.1 , "critical" : 0.2}}]', 'critical', 0],
])('loadConfig() refuses a name that is twice in a table of JSON: %s', (POLICIES, name, index) => {
  expect(readMessage({ UPSTREAM_URL, POLICIES })).toContain(
    `POLICIES: expected each name once in a table, but "${name}" is there twice in [${index}], got "[{`,
  )
})

test('findProblems() finds what else is wrong in JSON that has a name twice', () => {
  const POLICIES = '[{"name":"a","limits":"1/1s","limits":"9/1s","by":"x"}]'
  const { problems, config } = findProblems({ UPSTREAM_URL, POLICIES })
  expect(problems.map(({ option }) => option)).toEqual(['POLICIES', 'POLICIES[0].by'])
  expect(config).toBeDefined()
})

test('loadConfig() takes no text in JSON for a name, and the same name in two tables for no repetition', () => {
  const tables = [
    { name: 'name', limits: '1/1s', match: ['/name', '/{'], by: 'header:name' },
    { name: '"name":', limits: '1/1s' },
  ]
  // What is wrong with them is something else.
  expect(readMessage({ UPSTREAM_URL, POLICIES: JSON.stringify(tables) })).toMatch(/^POLICIES\[0\]\.match: /)
  const [first, second] = tables.map((table) => ({ ...table, match: ['/name'] }))
  expect(readMessage({ UPSTREAM_URL, POLICIES: JSON.stringify([first, second]) })).toMatch(/^POLICIES\[1\]\.name: /)
})

test('loadConfig() takes an empty variable for none', () => {
  const names = VARIABLES.filter((name) => !NEVER_EMPTY.has(name))
  const empty = Object.fromEntries(names.map((name) => [name, '']))
  expect(loadConfig({ ...empty, UPSTREAM_URL })).toEqual(loadConfig({ UPSTREAM_URL }))
  const { problems } = findProblems({ ...empty, MODE: 'x' })
  expect(problems.map(({ variable }) => variable)).toEqual(['MODE', 'UPSTREAM_URL'])
})

test.each([[[]], ['[]'], ['{}'], [7]])('findProblems() comes to an end with the policies %j', (POLICIES) => {
  const { problems, config } = findProblems({ UPSTREAM_URL, POLICIES })
  expect(problems.map(({ variable }) => variable)).toEqual(['POLICIES'])
  expect(config).toBeDefined()
})

test('loadConfig() leaves alone what it was given', () => {
  const env = { UPSTREAM_URL, ...REDIS, EXEMPT: ['/a'], POLICIES: [{ ...A, match: ['/b'] }] }
  loadConfig(env)
  const given = [env, env.EXEMPT, env.POLICIES, env.POLICIES[0], env.POLICIES[0]?.match]
  expect(given.map(Object.isFrozen)).toEqual(given.map(() => false))
})

test.each([
  ['RATE_LIMIT', 'RATE_LIMITS'],
  ['RATELIMITS', 'RATE_LIMITS'],
  ['POLICY', 'POLICIES'],
  ['ANONYMUOS', 'ANONYMOUS'],
  ['UPSTREAM_TIMEOUT', 'UPSTREAM_TIMEOUT_MS'],
  ['IDENTITY_SECERT', 'IDENTITY_SECRET'],
])('loadConfig() refuses %s, which is close to %s, and shows no value of it', (name, meant) => {
  expect(readMessage({ UPSTREAM_URL, [name]: 'hush' })).toBe(`${name}: unknown variable; did you mean ${meant}?`)
  // A binding is the operator's own.
  expect(() => load({ [name]: fetcher })).not.toThrow()
})

test.each('NODE MODEL KV_PREFIX LOCAL_STORE RATE_LIMITER rate_limit CF_VERSION_METADATA LIMIT UPSTREAM'.split(' '))(
  'loadConfig() leaves %s alone',
  (name) => {
    expect(load({ [name]: 'x' }).keyPrefix).toBe('sluice')
  },
)
