/** Options that are refused, in one line that names them. */
import { expect, test } from 'vitest'
import { OptionError } from '../../../src/core/options/option-error.ts'
import { MemoryStore } from '../../../src/core/store/memory/memory-store.ts'
import type { Adapter } from './adapter.ts'

const LIMITS = 'limits: expected limits such as "10/1s, 120/1m"'
const MORE =
  '100000 (for more, a policy with algorithm = "quota", or one that allows a large log: allow_large_log, in code allowLargeLog)'
const FOLDABLE = 'by "header:", "query:", "form:", "cookie:", "json:" or "claim:" with it'
const KEYS_URL = 'an https URL without credentials or fragment (http only to this machine)'
const NO_KEYS = 'expected jwt.jwksUrl or jwt.secret beside a claim, got "claim:sub"'
const NO_CLAIM = 'expected a policy with by or plan = "claim:<name>" beside it'
const BY_PLAN = 'plans, or a policy with limits by plan and no plan of its own, beside it'
const PLANS = 'limits and the function "plan" beside it, and no plan "default": that is limits'
const plan = () => 'pro'
const ONE = { name: 'one', limits: '1/1m' }
const secret = 'a secret of thirty-two characters'
const jwksUrl = 'https://id.example.com/keys'

/** What is wrong besides `limits: '1/1s'`. Messages are whole, or what a long one begins with. */
const WRONG: readonly (readonly [options: object, message: string | RegExp])[] = [
  [{ limits: undefined }, `${LIMITS}, got nothing`],
  [{ limits: '10' }, `${LIMITS}, got "10": "10" lacks a window`],
  [{ limits: '100001/1m' }, `limits: expected limits up to ${MORE}, got "100001/1m"`],
  [{ lmits: '1/1s' }, /^lmits: unknown option; expected one of limits, /],
  [{ limit: 10 }, /^limit: unknown option; see limits, e\.g\. "100\/1m"; expected one of limits, /],
  [{ windowMs: 60_000, max: 10 }, /^windowMs: unknown option; see limits, e\.g\. "100\/1m"; /],
  [{ keyGenerator() {} }, /^keyGenerator: unknown option; see identify, or by; /],
  [{ counts: 'failures' }, /^counts: unknown option; see policies, whose option it is; /],
  [{ by: 'name' }, /^by: expected "token", "ip", /],
  [{ by: 'ip', identify: () => 'x' }, 'by: expected no "by" beside the function "identify", got "ip"'],
  [{ fold: 'lower' }, `fold: expected ${FOLDABLE}, got "lower"`],
  [
    { policies: [{ ...ONE, actual_cost: { bytes: 1, 'bytes:request': 1 } }] },
    'policies[0].actual_cost: expected no "bytes:request" outside the gateway, got "bytes:request"',
  ],
  [{ cost: 2 }, 'cost: expected a function, got 2'],
  [{ onDecision: 1 }, 'onDecision: expected a function, got 1'],
  [{ delay: 500 }, 'delay: expected a function, got 500'],
  [{ plan: 'header:x-plan', plans: { pro: '9/1s' } }, 'plan: expected a function, got "header:x-plan"'],
  [{ plan }, `plan: expected ${BY_PLAN}, got a function`],
  [
    { plan, policies: [{ name: 'one', plan: 'header:x', default_plan: 'a', limits: { a: '1/1m' } }] },
    /^plan: expected /,
  ],
  [{ plans: { pro: '9/1s' } }, `plans: expected ${PLANS}, got ["pro"]`],
  [{ limits: undefined, policies: [ONE], plan, plans: { pro: '9/1s' } }, `plans: expected ${PLANS}, got ["pro"]`],
  [{ plan, plans: { default: '9/1s' } }, `plans: expected ${PLANS}, got ["default"]`],
  [{ plan, plans: { pro: '9/1m' } }, 'plans.pro: expected the same windows in every plan, got "9/1m"'],
  [{ plan, plans: 'pro' }, 'plans: expected limits by plan, got "pro"'],
  [
    { plan, plans: { 'a b': '9/1s' } },
    'plans: expected the name of a plan, up to 64 letters, digits, "-" or "_", got "a b"',
  ],
  [{ plan, plans: { pro: '9' } }, /^plans\.pro: expected limits such as /],
  [{ now: () => new Date() }, /^now: expected a clock that returns milliseconds/],
  [{ store: 'redis://' }, 'store: expected what memoryStore() or redisStore() makes, got "string"'],
  [{ identitySecret: 'short' }, 'identitySecret: expected at least 16 characters, got a value not shown here'],
  [{ trustProxy: true }, 'trustProxy: expected a number of proxies from 1 to 20, or a function, got true'],
  [{ shedding: 'on' }, 'shedding: expected true or false, got "on"'],
  [{ policies: [{ name: 'one', limits: '10' }] }, /^policies\[0\]\.limits: expected limits such as /],
  [
    { policies: [{ ...ONE, max: 1 }] },
    /^policies\[0\]\.max: unknown setting; see limits, e\.g\. "100\/1m"; expected one of name, /,
  ],
  [{ policies: [ONE, ONE] }, 'policies[1].name: expected a name used once, got "one"'],
  [{ name: 'one', policies: [ONE] }, 'policies[0].name: expected another name: limits makes "one", got "one"'],
  [
    { limits: undefined, policies: [{ name: 'one', priority: 'critical' }] },
    'policies: expected at least one policy with limits (or limits, or shedding: true), got ["one"]',
  ],
  [{ by: 'claim:sub' }, `by: ${NO_KEYS}`],
  [{ by: 'claim:sub', jwt: {} }, `by: ${NO_KEYS}`],
  [{ policies: [{ ...ONE, by: 'claim:sub' }] }, `policies[0].by: ${NO_KEYS}`],
  [{ by: 'ip', jwt: { secret } }, `jwt.secret: ${NO_CLAIM}, got a value not shown here`],
  ...Object.entries({
    'jwt: expected a table of options, got a value not shown here': secret,
    'jwt.secret: expected none beside jwt.jwksUrl, got a value not shown here': { secret, jwksUrl },
    'jwt.secret: expected at least 32 characters, got a value not shown here': { secret: 'short' },
    'jwt.secrets: unknown option; expected one of jwksUrl, secret, issuer, audience': { secrets: secret },
    [`jwt.jwksUrl: expected ${KEYS_URL}, got "http://id.example.com"`]: { jwksUrl: 'http://id.example.com' },
  }).map(([message, jwt]) => [{ by: 'claim:sub', jwt }, message] as const),
]

export function describeOptions({ make }: Adapter): void {
  test.each(WRONG)('refuses %j', (options, expected) => {
    const message = typeof expected === 'string' ? expected : expect.stringMatching(expected)
    const makeWrong = () => make({ limits: '1/1s', ...options })
    expect(makeWrong).toThrow(OptionError)
    expect(makeWrong).toThrow(expect.objectContaining({ message }))
  })

  test('refuses other limits under a name that the store knows', () => {
    const store = { isRemote: true, timeoutMs: 1_000, open: () => new MemoryStore(Date.now) }
    const log = () => {}
    const makeWith = (options: object) => make({ log, store, ...options })
    makeWith({ limits: '1/1m' })
    makeWith({ limits: '1/1m' })
    makeWith({ limits: '2/1m', name: 'other' })
    expect(() => makeWith({ limits: '2/1m' })).toThrow(
      'name: expected a name or a keyPrefix of its own for each set of limits in one store, got "default"',
    )
    const byDay = { name: 'day', algorithm: 'quota', limits: '10/day' }
    const byPlan = { name: 'plan', by: 'header:x-key', plan: 'header:x-plan', default_plan: 'free' }
    makeWith({ policies: [byDay, { ...byPlan, limits: { free: '1/1s', pro: '9/1s' } }] })
    for (const policy of [
      { ...byDay, time_zone: 'Asia/Tokyo' },
      { ...byPlan, limits: { free: '1/1s', pro: '5/1s' } },
    ]) {
      expect(() => makeWith({ policies: [policy] })).toThrow('a name or a keyPrefix of its own')
    }
  })

  test('says at most once that limits hold per process only, if it is given no store', () => {
    const events: unknown[] = []
    for (let made = 0; made < 2; made++) {
      make({ limits: '1/1m', log: (_: string, { event }: { event: string }) => events.push(event) })
    }
    expect(events.filter((event) => event === 'in_memory_store').length).toBeLessThanOrEqual(1)
  })
}
