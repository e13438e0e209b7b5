/** Each variable refuses its bad examples, and no message shows a secret: a variable without examples does not compile. */
import { expect, test } from 'vitest'
import { SHARD_STATES } from '../../src/core/engine/places/shards.ts'
import { NEVER_EMPTY } from '../../src/http/config/load-config.ts'
import type { VariableName } from '../../src/http/config/variables.ts'
import {
  type BadExamples,
  LIMITS,
  listCases,
  PATTERNS,
  readMessage,
  refuseIntegers,
  refuseNames,
  UPSTREAM_URL,
} from '../support/config.ts'

const refuseSwitch = refuseNames('on', 'off')
const ORIGIN = 'an http or https URL without credentials, query or fragment'
const refuseSecrets: BadExamples = {
  'at least 32 characters of ASCII, none of them a space': [
    ...['a-hush-of-thirty-one-characters', 'a secret of thirty-two characters hush', 'hush'],
    ...[`hush-secret-of-thirty-two-characters\n`, ['hush'], { hush: 'hush' }],
  ],
}
const refuseSpaces: BadExamples = { 'up to 1000 characters without spaces': ['', 'a b', 'x'.repeat(1_001), 7] }

const SHARDS =
  'JSON of a list of tables with name, url, token and, while it moves, state: "joining" or "leaving", but not of all alike'
const shard = (...own: readonly object[]) =>
  JSON.stringify(own.map((each) => ({ name: 'a', url: 'https://eu1-hush.upstash.io', token: 'hush', ...each })))

const BAD: Readonly<Record<VariableName, BadExamples>> = {
  UPSTREAM_URL: {
    [ORIGIN]: [
      ...['api.example.com', 'ftp://api.example.com', 'https://a.example/#b', 'x'.repeat(1_000), 7],
      ...[{ toString: false }, 'https://user:hush@api.example.com', 'redis://default:hush@eu1-x.upstash.io:6379'],
    ],
  },
  UPSTREAM_TIMEOUT_MS: refuseIntegers(1, 3_600_000),
  UPSTREAM_SECRET: refuseSecrets,
  FORWARD_HEADERS: {
    'names of headers, e.g. "X-Remote-User, CF-Pseudo-IPv4"': [
      ...['X_Key', 'Connection', 'Sluice-Secret', 'X-Forwarded-For', 'X-A;X-B', 'é'].map((name) => `X-IP, ${name}`),
      7,
    ],
  },
  UPSTASH_REDIS_REST_URL: {
    'an http or https URL whose host has more than one letter': ['http://a', 'https://.upstash.io', 'https://$x'],
    [ORIGIN]: [
      'rediss://default:hush@eu1-x.upstash.io:6379',
      // Upstash takes a token in the query as well.
      'https://eu1-x.upstash.io?_token=hush',
      // The two values that the console shows side by side, pasted the wrong way round.
      'AXXhush',
    ],
  },
  UPSTASH_REDIS_REST_TOKEN: { 'the REST token of the database': ['two words', 'hush hush', { hush: 'hush' }] },
  REDIS_SHARDS: {
    [SHARDS]: ['hush', '[]', '{"name":"hush"}', 7, ...SHARD_STATES.map((state) => shard({ state }))],
    'first the database that has the rules, which cannot be "joining"': [
      JSON.stringify([
        { name: 'a', url: 'https://hush-a.example', token: 'hush', state: 'joining' },
        { name: 'b', url: 'https://hush-b.example', token: 'hush' },
      ]),
    ],
    'each name and each url once': [
      shard({}, {}),
      shard({}, { name: 'b' }),
      shard({}, { url: 'https://hush.example' }),
    ],
  },
  STORE: refuseNames('redis', 'durable-object', 'memory'),
  STORE_MIRROR: refuseNames('redis', 'durable-object'),
  RATE_LIMITS: { [LIMITS]: ['0/1m', 60, ' ', 'OFF'] },
  POLICIES: { 'a list of tables, or JSON of one': ['[{]', { name: 'a' }, [], 5] },
  ANONYMOUS: refuseNames('ip', 'deny'),
  IPV6_PREFIX: refuseIntegers(16, 128),
  EXEMPT: { [PATTERNS]: [5, ' ', []] },
  LITERAL_IN_PATHS: { 'some of %2F %5C %25 %3F %23 ;, with spaces between': ['%2F,;', ' ', '/', 5] },
  MERGED_PARAMETERS: refuseSwitch,
  MODE: refuseNames('enforce', 'shadow'),
  SHEDDING: refuseSwitch,
  CORS_ORIGINS: {
    'origins such as https://app.example.com, or *': [
      ...['https://app.example.com/', 'https://app.example.com:443', 'https://App.example.com', 'app.example.com'],
      ...['https://*.example.com', 'null', 'https://a.example https://b.example', 'https://a.example,', 'file://', 5],
    ],
  },
  SELF_SERVICE: refuseSwitch,
  REWRITE_LOCATION: refuseSwitch,
  RATELIMIT_HEADERS: refuseNames('draft-11', 'draft-6', 'x-ratelimit', 'off'),
  STORE_TIMEOUT_MS: refuseIntegers(1, 60_000),
  ON_STORE_ERROR: refuseNames('local', 'open', 'closed'),
  LOCAL_SHARE: { 'a share above 0 and at most 1': ['0', 0, 1.01, 'half', '1%'] },
  LEASES: { '"off", "auto" or an integer from 2 to 10000': [1, '0', 'on', 10_001, '2.5'] },
  IDENTITY_SECRET: { 'at least 16 characters': ['', 'fifteen letters', 'hush', ['hush']] },
  JWKS_URL: {
    'an https URL without credentials or fragment (http only to this machine)': [
      ...['http://id.example.com/keys', 'http://localhost.example.com/', 'https://id.example.com/#a', 'ftp://x'],
      ...['https://', 'https://me:hush@id.example.com/'],
    ],
  },
  JWT_SECRET: { 'at least 32 characters': ['thirty-one characters: too few.', 'hush', ['hush']] },
  JWT_ISSUER: refuseSpaces,
  JWT_AUDIENCE: refuseSpaces,
  KEY_PREFIX: { 'up to 64 letters, digits, "_", ".", ":" or "-"': ['a{b}', 'x'.repeat(65), 5] },
  RULES: refuseSwitch,
  RULES_REFRESH_MS: refuseIntegers(100, 3_600_000),
  STATISTICS: refuseNames('on', 'counts', 'off'),
  LOG_REFUSALS: { 'a share from 0 to 1': ['1%', 2, -0.1] },
  CALLER_LABEL: {
    '"header:<name>" or "claim:<name>" of what holds neither a credential nor an address': [
      ...['Authorization', 'X-Api-Key', 'Cookie', 'CF-Connecting-IP', 'X-Forwarded-For', 'X-Session', 'X-Real-IP'].map(
        (name) => `header:${name}`,
      ),
      ...['query:company', 5],
    ],
  },
  METRICS_TOKEN: refuseSecrets,
  ADMIN_TOKEN: refuseSecrets,
  ADMIN_HOST: { 'a host such as "admin.example.com"': ['', 'admin..example.com', 'admin.example.com:99999', 'a b', 5] },
  DECIDE_TOKEN: refuseSecrets,
}

const SECRET =
  /^(?:UPSTREAM_SECRET|UPSTASH_REDIS_REST_(?:URL|TOKEN)|REDIS_SHARDS|IDENTITY_SECRET|JWT_SECRET|(?:METRICS|ADMIN|DECIDE)_TOKEN)$/

test.each(listCases(BAD))('$setting refuses $value', ({ setting, value, expected, shown }) => {
  const message = readMessage({ UPSTREAM_URL, [setting]: value })
  const isHidden = SECRET.test(setting) || shown.includes('@')
  // Limits are explained after it.
  expect(message).toContain(`${setting}: expected ${expected}, got ${isHidden ? 'a value not shown here' : shown}`)
  expect(message).not.toContain('hush')
})

test('what may never be empty has the empty text among its bad examples', () => {
  const names = [...NEVER_EMPTY].filter(
    (name) =>
      !Object.values(BAD[name as VariableName])
        .flat()
        .includes(''),
  )
  expect(names).toEqual([])
})
