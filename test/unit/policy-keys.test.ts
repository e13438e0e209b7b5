/** Each key of a policy refuses its bad examples: a key without examples does not compile. */
import { expect, test } from 'vitest'
import type { PolicyInput, policyKeys } from '../../src/http/config/policy-keys.ts'
import {
  A,
  type BadExamples,
  DURATION,
  LIMITS,
  listCases,
  PATTERNS,
  readMessage,
  refuseIntegers,
  refuseNames,
  UPSTREAM_URL,
} from '../support/config.ts'

const COST = 'an integer from 1 to 1000000000'
const PLAN = '"header:<name>" or "claim:<name or /pointer>"'
const STATUSES = 'statuses from 200 to 599 and classes of them, e.g. "401, 403" or "4xx except 422"'
const refuseBooleans: BadExamples = { 'true or false': ['yes', 'true', 1, null] }
const refuseText: BadExamples = { 'up to 10000 characters': ['', 5, 'x'.repeat(10_001)] }
const refuseUrls: BadExamples = {
  'an https URL without credentials': [
    ...['/upgrade', 'http://example.com/', 'javascript:alert(1)', 'https://user@example.com/', 'https://example.com/é'],
    ...[
      'https://example.com/ x',
      'https://a:b:c/',
      'https://',
      `https://example.com/${'x'.repeat(2_001)}`,
      'https:///x',
    ],
  ],
}

type Key = keyof typeof policyKeys
type Nested<Table extends 'refusal' | 'reserve'> = `${Table}.${keyof NonNullable<PolicyInput[Table]> & string}`

const BAD: Readonly<Record<Key | Nested<'refusal'> | Nested<'reserve'> | 'limits.free', BadExamples>> = {
  name: { 'up to 64 letters, digits, "-" or "_"': ['a b', '', 'x'.repeat(65), 5] },
  limits: { [LIMITS]: ['5 per minute', true] },
  'limits.free': { [LIMITS]: [true] },
  plan: { [PLAN]: ['query:plan', 'header:a+header:b', 5] },
  default_plan: { 'the name of a plan, up to 64 letters, digits, "-" or "_"': ['a b', '', 5] },
  algorithm: refuseNames('sliding-window', 'token-bucket', 'fixed-window', 'quota', 'sorted-set', 'concurrency'),
  by: {
    '"token", "ip", "route", "global", "header:<name>", "query:<name>", "form:<name>", "cookie:<name>", "json:</pointer>" or "claim:<name or /pointer>", joined with "+"':
      ['cookies:sid', 'claim:user.id', '', 5],
  },
  fold: {
    'words of "lower", "trim", "accents" and "numbers", such as "lower trim"': [
      'upper',
      'lower,',
      'trim,',
      'lower trim,',
      '',
    ],
  },
  match: { [PATTERNS]: ['login', ['/a', 'b'], [], 5] },
  ignore_case: refuseBooleans,
  cost: {
    [COST]: [0, -1, 1.5, 1_000_000_001],
    [`${COST}, "header:<name>" or "bytes:request/<bytes of a unit>"`]: ['x-cost', ' 5', true, 'bytes/4'],
  },
  max_cost: refuseIntegers(1, 1_000_000_000),
  burst: refuseIntegers(1, 1_000_000_000),
  time_zone: { 'a time zone': [5, null] },
  starts: refuseIntegers(1, 31),
  slot_ttl: { [DURATION]: [5, null] },
  anonymous: {
    '"ip", "skip", "deny" or "deny:<status from 400 to 499, but not 407>"': ['deny:200', 'deny:407', 'x', 5],
  },
  priority: refuseNames('critical', 'default', 'sheddable'),
  reserve: { 'a table of shares': [0.2, 'critical'] },
  'reserve.critical': { 'a share above 0 and below 1': [1, 0, '0.5'] },
  'reserve.default': { 'a share above 0 and below 1': [1, 0, '0.5'] },
  actual_cost: {
    '"header:<name>", "json:</pointer>", "bytes", "bytes:request" or "ms", or a table of these with weights': [
      ...[
        'x-actual',
        'query:x',
        'json:a',
        5,
        {},
        { bytes: 0 },
        { bytes: '1' },
        { ms: 1, cookie: 1 },
        { ms: 2_000_000 },
        { ms: -1 },
        { 'json:/a': -1 },
        'json:/a|',
        'json:0',
      ],
    ],
  },
  untold: {
    'an integer from 0 to 1000000000, or a share of what is measured, such as "bytes/4"': ['bytes/0', 'json:/a', true],
    'an integer from 0 to 1000000000': [-1, 0.5],
  },
  on_disconnect: refuseNames('read', 'abort'),
  on_store_error: refuseNames('local', 'open', 'closed'),
  counts: refuseNames('requests', 'new-identities', 'responses', 'failures', 'successes'),
  failures: {
    [STATUSES]: ['', '4', '99', '199', '600', '1xx', '6xx', '40x', '401;403', 'x', '401,', [[]], [[401.5]], null],
  },
  penalty: { [DURATION]: [5, null] },
  penalty_after: refuseIntegers(1, 1_000),
  allow_large_log: refuseBooleans,
  refusal: { 'a table': ['Wait.', 5] },
  'refusal.status': { '402 or 403 or 429 or 503': [401, 404, 500, '402', true] },
  'refusal.type': refuseUrls,
  'refusal.detail': refuseText,
  'refusal.html': refuseText,
  'refusal.redirect': refuseUrls,
  mode: refuseNames('enforce', 'shadow'),
}

test.each(listCases(BAD))('$setting refuses $value', ({ setting, value, expected, shown }) => {
  const [key = '', inner] = setting.split('.')
  const policy = { ...A, [key]: inner === undefined ? value : { [inner]: value } }
  const message = readMessage({ UPSTREAM_URL, POLICIES: [policy] })
  // Limits are explained after it.
  expect(message).toContain(`POLICIES[0].${setting}: expected ${expected}, got ${shown}`)
})
