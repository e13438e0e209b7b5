/** Where Workers start, little is allowed: the gateway of every configuration must start there, and none may stop it. */
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { ALGORITHM_NAMES } from '../../src/core/model/limits.ts'
import type { Reader } from '../../src/core/options/readers.ts'
import { VARIABLES, type VariableName, variables } from '../../src/http/config/variables.ts'
import { PLANTED } from '../setup/secret-watch.ts'
import { buildBundle, removeBundle } from '../support/build-bundle.ts'
import { startDirectGateway } from '../support/direct-gateway.ts'
import { redisBindings } from '../support/gateway.ts'
import { share } from '../support/share.ts'

const SECRET = `${PLANTED}-of-operators-0123456789`
const { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token } = redisBindings()
const POLICIES = ALGORITHM_NAMES.map((algorithm) => ({
  ...{ name: algorithm, algorithm, limits: algorithm === 'concurrency' ? '5' : '1000/1h' },
  ...(algorithm === 'sliding-window' && { penalty: '1m' }),
}))

/** Every value of a closed list, and one of any other. */
const VALUES = {
  UPSTREAM_URL: ['https://api.example.com/v1'],
  UPSTREAM_TIMEOUT_MS: [1_000],
  UPSTREAM_SECRET: [SECRET],
  FORWARD_HEADERS: ['Cf-Access-Authenticated-User-Email'],
  UPSTASH_REDIS_REST_URL: [url],
  UPSTASH_REDIS_REST_TOKEN: [token],
  REDIS_SHARDS: [['a', 'b'].map((name) => ({ name, url: `${url}/${name}`, token }))],
  STORE: ['redis', 'durable-object', 'memory'],
  STORE_MIRROR: ['durable-object', 'redis'],
  RATE_LIMITS: ['10/1s, 120/1m', 'off'],
  POLICIES: [POLICIES, [{ name: 'daily', by: 'claim:sub', algorithm: 'quota', limits: '5/day' }]],
  ANONYMOUS: ['ip', 'deny'],
  IPV6_PREFIX: [56],
  EXEMPT: ['OPTIONS *'],
  LITERAL_IN_PATHS: ['%2F ;'],
  MERGED_PARAMETERS: ['on', 'off'],
  MODE: ['enforce', 'shadow'],
  SHEDDING: ['on', 'off'],
  CORS_ORIGINS: ['https://app.example.com'],
  SELF_SERVICE: ['on', 'off'],
  REWRITE_LOCATION: ['on', 'off'],
  RATELIMIT_HEADERS: ['draft-11', 'draft-6', 'x-ratelimit', 'off'],
  STORE_TIMEOUT_MS: [60_000],
  ON_STORE_ERROR: ['local', 'open', 'closed'],
  LOCAL_SHARE: [0.5],
  LEASES: ['auto', 'off', 9],
  IDENTITY_SECRET: [SECRET],
  JWKS_URL: ['https://id.example.com/keys'],
  JWT_SECRET: [SECRET],
  JWT_ISSUER: ['https://id.example.com/'],
  JWT_AUDIENCE: ['https://api.example.com'],
  KEY_PREFIX: ['own'],
  RULES: ['on', 'off'],
  RULES_REFRESH_MS: [1_000],
  STATISTICS: ['on', 'off', 'counts'],
  LOG_REFUSALS: [0.5],
  CALLER_LABEL: ['header:X-Account'],
  METRICS_TOKEN: [`${SECRET}-metrics`],
  ADMIN_TOKEN: [`${SECRET}-admin`],
  ADMIN_HOST: ['admin.example.com'],
  DECIDE_TOKEN: [`${SECRET}-decide`],
} satisfies Readonly<Record<VariableName, readonly unknown[]>>

/** Variables that exclude others, by what they take the place of. */
const EITHER: readonly (readonly [VariableName, ...VariableName[]][])[] = [
  [['JWT_SECRET'], ['JWKS_URL']],
  [['REDIS_SHARDS'], ['UPSTASH_REDIS_REST_URL', 'UPSTASH_REDIS_REST_TOKEN']],
]

/** All variables at once, each with the next of its values; of those that exclude each other, each in turn. */
function createRound(round: number): Record<string, unknown> {
  const env: Record<string, unknown> = {}
  for (const name of VARIABLES) env[name] = VALUES[name][round % VALUES[name].length]
  for (const sides of EITHER) for (const name of sides[round % 2] ?? []) delete env[name]
  if (env.STORE === env.STORE_MIRROR || env.STORE === 'memory') delete env.STORE_MIRROR
  if (env.STATISTICS === 'off') delete env.METRICS_TOKEN
  if (env.RULES === 'off' && env.POLICIES === POLICIES)
    for (const name of VARIABLES) if (/^JW/.test(name)) delete env[name]
  if (env.RATE_LIMITS === 'off' && env.POLICIES === undefined) delete env.RATE_LIMITS
  return env
}

const ROUNDS = Array.from({ length: 12 }, (_, round) => createRound(round))

test('the rounds have every variable, and every value of a closed list', () => {
  const started = new Set(ROUNDS.flatMap((env) => Object.entries(env).map(([name, value]) => `${name}=${value}`)))
  for (const name of VARIABLES) {
    const { values: closed = [] }: Reader = variables[name]
    const values: readonly unknown[] = [...VALUES[name], ...closed]
    expect(values.filter((value) => !started.has(`${name}=${value}`)).map((value) => `${name}=${value}`)).toEqual([])
  }
})

describe('startGateway() where a Worker starts', () => {
  test.each(ROUNDS.map((env, round) => [round, env] as const))(
    'is done before the first request, with all variables at once: %i',
    async (_, bindings) => {
      const gateway = await startDirectGateway({ bundle: inject('bundle'), bindings, objects: 'memory' })
      onTestFinished(() => gateway.stop())
      const response = await fetch(new URL('/_sluice/health', gateway.url))
      expect([response.status, await response.json()]).toMatchObject([200, { store: { kind: bindings.STORE } }])
      expect(gateway.log.filter((line) => /unexpected_error|misconfigured|unhandled/.test(line))).toEqual([])
    },
  )

  test('answers every request that a variable is wrong, and says so in the log once', async () => {
    const bindings = { UPSTREAM_URL: 'https://api.example.com', RATE_LIMITS: '5 a minute' }
    const gateway = await startDirectGateway({ bundle: inject('bundle'), bindings, objects: 'memory' })
    onTestFinished(() => gateway.stop())
    await expect.poll(() => gateway.log).toEqual([expect.stringContaining('misconfigured')])
    const statuses = []
    for (let sent = 0; sent < 2; sent++) statuses.push((await fetch(gateway.url)).status)
    expect([statuses, gateway.log]).toEqual([[500, 500], [expect.stringContaining('"message":"RATE_LIMITS: ')]])
  })
})

describe('runDry() where a Worker starts', () => {
  const bundle = share(() => buildBundle({ source: 'test/support/workers/dry-run.ts' }), removeBundle)

  test.each([
    ['one limit', { RATE_LIMITS: '60/1m' }],
    ['three limits', { RATE_LIMITS: '10/1s, 120/1m, 240/1h' }],
    ['every algorithm, slots and a penalty', { RATE_LIMITS: 'off', POLICIES }],
    ['leases, shedding and CORS', { LEASES: 'auto', SHEDDING: 'on', CORS_ORIGINS: '*', REWRITE_LOCATION: 'on' }],
    ['rules, statistics and operators', { RULES: 'on', STATISTICS: 'on', LOG_REFUSALS: 1, ADMIN_TOKEN: SECRET }],
  ])('goes its whole way with %s, and reaches nothing', async (_, variables) => {
    const nowhere = { UPSTREAM_URL: 'http://127.0.0.1:1', UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1' }
    const bindings = { ...nowhere, UPSTASH_REDIS_REST_TOKEN: 'none', ...variables }
    const worker = await startDirectGateway({ bundle, bindings })
    onTestFinished(() => worker.stop())
    expect([await (await fetch(worker.url)).text(), worker.log]).toEqual(['200', []])
  })
})
