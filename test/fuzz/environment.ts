import fc from 'fast-check'
import { VARIABLES } from '../../src/http/config/variables.ts'
import { anyText, readText } from './strings.ts'

/** Part of every secret in an environment made here. */
export const HUSH = 'hush-7a1f'

type Variable = (typeof VARIABLES)[number]

const secret = fc.stringMatching(/^[!-~]{0,20}$/).map((text) => HUSH + text)
const limits = fc.oneof(
  fc.constantFrom(
    ...['10/1s', '10/1s, 120/1m, 240/1h', '1/53w', '100000/1d', '100001/1d', '5/1s,6/1s', '0/1s', '5/0s', '5'],
  ),
  readText('1', '0', '100', '/', '1s', 'm', ', ', '10/1s', '99999999999'),
)
const pattern = fc.oneof(
  fc.constantFrom('*', 'GET /users/:id', 'POST /upload/*', '/a?b', 'GET', '/a/**', '/:', '//x/../y', '/%zz'),
  readText('GET', ' ', '/', ':id', '*', 'a', '%2e', ','),
)
const patterns = fc.oneof(pattern, fc.array(pattern, { maxLength: 3 }), readText('GET /a', ', ', '*'))
const count = fc.oneof(
  fc.integer({ min: 1, max: 200 }),
  fc.constantFrom(0, -1, 1.5, 1e9, 1e9 + 1, '7', '07', '', ' 7', '1e3', Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53),
)
const header = fc.constantFrom('header:x-cost', 'header:X-Cost', 'header:', 'header:a b', 'header:é', 'x-cost')
const share = fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0.2, 0.5, 0, 1, '0.5', null))

/** Values of each key that mean something, right ones and wrong ones. */
const policy = fc.record(
  {
    name: fc.oneof(fc.constantFrom('a', 'b', 'default', 'day-1', '', 'a b', 'x'.repeat(65)), anyText),
    limits: fc.oneof(
      limits,
      fc.integer({ min: 1, max: 40 }).map(String),
      fc.dictionary(fc.constantFrom('free', 'pro', 'a b', '__proto__'), limits),
    ),
    plan: fc.oneof(header, fc.constantFrom('claim:plan', 'claim:/a/b', 'claim:')),
    default_plan: fc.constantFrom('free', 'pro', 'x', ''),
    algorithm: fc.constantFrom(
      ...['sliding-window', 'token-bucket', 'fixed-window', 'quota', 'sorted-set', 'concurrency', 'leaky'],
    ),
    by: fc.oneof(
      fc.constantFrom('token', 'ip+route', 'header:x', 'query:k', 'form:f', 'global', '', '+'),
      fc.constantFrom('claim:sub', 'claim:/a/b', 'claim:a.b', 'claim:'),
      anyText,
    ),
    fold: fc.constantFrom('lower', 'trim', 'lower trim', 'trim lower', 'lower accents numbers', 'upper', ''),
    match: patterns,
    cost: fc.oneof(count, header),
    max_cost: count,
    burst: count,
    slot_ttl: fc.constantFrom('1s', '5m', '0s', '54w', '1'),
    anonymous: fc.constantFrom('ip', 'skip', 'deny', 'deny:403', 'deny:200', 'deny:'),
    priority: fc.constantFrom('critical', 'default', 'sheddable', 'low'),
    reserve: fc.record({ critical: share, default: share, other: share }, { requiredKeys: [] }),
    actual_cost: fc.oneof(header, fc.constantFrom('json:/a|/b/-|0', 'bytes', 'ms')),
    untold: fc.oneof(count, fc.constantFrom('bytes/4', 'ms', 'bytes/0')),
    on_disconnect: fc.constantFrom('read', 'abort', 'leave'),
    counts: fc.constantFrom('requests', 'new-identities', 'responses', 'failures', 'successes', 'errors'),
    failures: fc.oneof(fc.constantFrom('401', '4xx', '401, 5xx', 404, '', '600', '4x'), anyText),
    allow_large_log: fc.constantFrom(true, false, 'true'),
    refusal: fc.record(
      {
        status: fc.constantFrom(402, 503, 401, '429'),
        type: fc.constantFrom('https://example.com/a#b', 'about:blank', 'https://'),
        detail: anyText,
        html: anyText,
        redirect: fc.constantFrom('https://example.com/?a', '/a', 'https://a:b:c'),
      },
      { requiredKeys: [] },
    ),
    mode: fc.constantFrom('enforce', 'shadow', 'off'),
    on_store_error: fc.constantFrom('local', 'open', 'closed', 'retry'),
  },
  { requiredKeys: [] },
)
const NOTHING: fc.Arbitrary<Record<string, unknown>> = fc.constant({})
/** Keys that go together, so that many a policy of these is right. */
const rightPolicy = fc
  .tuple(
    fc.record({
      name: fc.stringMatching(/^[a-z]{2,4}$/),
      by: fc.constantFrom('token', 'ip+route', 'header:x', 'global'),
      match: fc.constantFrom('GET /users/:id', ['/a', 'POST /b/*'], '*'),
    }),
    fc.constantFrom(
      ...[
        { limits: '20/1s' },
        { limits: '20/1s, 90/1m', algorithm: 'quota' },
        { limits: '9', algorithm: 'concurrency' },
      ],
      ...[
        { limits: '50/1m', algorithm: 'token-bucket', burst: 30 },
        { limits: '30/1d', algorithm: 'fixed-window' },
      ],
      ...[
        { limits: '200000/1d', allow_large_log: true },
        { limits: '80/1h', algorithm: 'sorted-set', mode: 'shadow' },
      ],
    ),
    fc.oneof(
      NOTHING,
      fc.record({ cost: fc.integer({ min: 1, max: 12 }) }),
      fc.record({ cost: fc.constant('header:x-cost'), max_cost: fc.integer({ min: 1, max: 12 }) }),
    ),
    fc.oneof(NOTHING, fc.record({ reserve: fc.record({ critical: fc.double({ min: 0.01, max: 0.9, noNaN: true }) }) })),
  )
  .map(([names, limits, cost, reserve]) => ({ ...names, ...limits, ...cost, ...reserve }))
/** Right but for a key or two. */
const spoiltPolicy = fc
  .tuple(
    rightPolicy,
    policy,
    fc.subarray(['limits', 'by', 'cost', 'burst', 'reserve', 'actual_cost', 'slot_ttl'], { maxLength: 2 }),
  )
  .map(([right, any, keys]) => ({
    ...right,
    ...Object.fromEntries(Object.entries(any).filter(([key]) => keys.includes(key))),
  }))
const rightPolicies = fc.uniqueArray(rightPolicy, { minLength: 1, maxLength: 4, selector: ({ name }) => name })
const anyTables = fc.array(fc.oneof(spoiltPolicy, policy, fc.anything()), { maxLength: 3 })
const policies = fc.oneof(
  { arbitrary: rightPolicies, weight: 6 },
  { arbitrary: rightPolicies.map((tables) => JSON.stringify(tables)), weight: 2 },
  { arbitrary: fc.array(spoiltPolicy, { minLength: 1, maxLength: 2 }), weight: 8 },
  { arbitrary: anyTables, weight: 3 },
  { arbitrary: anyTables.map((tables) => JSON.stringify(tables)), weight: 1 },
  { arbitrary: fc.json(), weight: 1 },
  { arbitrary: anyText, weight: 1 },
)

const url = fc.constantFrom(
  ...['https://api.example.com', 'http://api.example.com/v1/', 'https://api.example.com//', 'ftp://api.example.com'],
  ...['api.example.com', 'https://', `https://user:${HUSH}@api.example.com`, `https://api.example.com?key=${HUSH}`],
)
const choice = (...options: string[]) => fc.constantFrom(...options, options.join(','), '')

const MEANT: Partial<Record<string, fc.Arbitrary<unknown>>> = {
  UPSTREAM_URL: url,
  UPSTREAM_TIMEOUT_MS: count,
  UPSTASH_REDIS_REST_URL: fc.oneof(
    secret.map((text) => `https://${text}.upstash.io`),
    secret.map((text) => `https://user:${text}@eu1.upstash.io`),
  ),
  UPSTASH_REDIS_REST_TOKEN: fc.oneof(
    secret,
    secret.map((text) => `${text}\n`),
    secret.map((text) => ` ${text}`),
  ),
  RATE_LIMITS: limits,
  POLICIES: policies,
  ANONYMOUS: choice('ip', 'deny'),
  IPV6_PREFIX: count,
  EXEMPT: patterns,
  LITERAL_IN_PATHS: fc.constantFrom('%2F', '%2f ;', '%5C  %25', '', ' ', '%41', '/'),
  MODE: choice('enforce', 'shadow'),
  SHEDDING: choice('on', 'off'),
  CORS_ORIGINS: fc.oneof(
    choice('*', 'https://app.example.com'),
    fc.constantFrom('https://app.example.com/', 'https://*.example.com', 'null'),
  ),
  MERGED_PARAMETERS: choice('on', 'off'),
  SELF_SERVICE: choice('on', 'off'),
  REWRITE_LOCATION: choice('on', 'off'),
  RATELIMIT_HEADERS: choice('draft-11', 'draft-6', 'x-ratelimit', 'off'),
  STORE_TIMEOUT_MS: count,
  ON_STORE_ERROR: choice('local', 'open', 'closed'),
  LOCAL_SHARE: fc.oneof(share, fc.constantFrom('0.5', '1', '0', '2', '.5', '5e-1')),
  LEASES: fc.oneof(choice('off', 'auto'), count),
  IDENTITY_SECRET: fc.oneof(
    secret,
    secret.map((text) => text.slice(0, 10)),
  ),
  JWKS_URL: fc.oneof(
    url,
    fc.constantFrom('http://localhost:8080/keys', `https://id.example.com/keys?key=${HUSH}`, 'http://[::1]'),
  ),
  JWT_SECRET: fc.oneof(
    secret,
    secret.map((text) => text.repeat(3)),
  ),
  JWT_ISSUER: fc.constantFrom('https://id.example.com/', 'me', '', 'a b'),
  JWT_AUDIENCE: fc.constantFrom('https://api.example.com/', 'api', '', 'a b'),
  ADMIN_TOKEN: secret,
  STATISTICS: choice('on', 'off'),
  METRICS_TOKEN: secret,
  DECIDE_TOKEN: secret,
  LOG_REFUSALS: fc.oneof(share, fc.constantFrom('0.5', '1', '0', '2', '.5', '5e-1')),
  CALLER_LABEL: fc.constantFrom('header:X-Account', 'header:Cookie', 'header:', 'X-Account', 'header:a b'),
  KEY_PREFIX: fc.constantFrom('sluice', 'a:b', '', 'a b', '{x}', 'x'.repeat(65)),
}

/** Junk in which secrets are, too: a value of the wrong kind must not be shown either. */
function junk(variable: Variable): fc.Arbitrary<unknown> {
  const isSecret = /TOKEN|SECRET|REST_URL/.test(variable)
  return isSecret ? fc.oneof(fc.array(secret), fc.record({ value: secret })) : fc.oneof(fc.anything(), anyText)
}

function anyValue(variable: Variable): fc.Arbitrary<unknown> {
  const meant = MEANT[variable]
  return meant ? fc.oneof({ arbitrary: meant, weight: 9 }, { arbitrary: junk(variable), weight: 1 }) : junk(variable)
}

/** One that is right. */
const RIGHT: Readonly<Record<string, unknown>> = {
  UPSTREAM_URL: 'https://api.example.com',
  UPSTASH_REDIS_REST_URL: `https://${HUSH}.upstash.io`,
  UPSTASH_REDIS_REST_TOKEN: HUSH,
}

/** Right but for a few variables, each of which is missing, or means something or not. */
export const anyEnvironment: fc.Arbitrary<Record<string, unknown>> = fc
  .subarray([...VARIABLES], { maxLength: 3 })
  .chain((variables) => {
    const values = variables.map((variable) => [variable, fc.option(anyValue(variable), { nil: undefined, freq: 9 })])
    return fc.record(Object.fromEntries(values))
  })
  .map((values) => ({ ...RIGHT, ...values }))

/** Right but, perhaps, for its policies. */
export const environmentOfPolicies: fc.Arbitrary<Record<string, unknown>> = policies.map((POLICIES) => ({
  ...RIGHT,
  POLICIES,
}))
