import fc from 'fast-check'
import { expect } from 'vitest'
import type { RequestPolicy } from '../../src/core/model/policy.ts'
import { OptionError } from '../../src/core/options/option-error.ts'
import { ALL_READERS, findProblems } from '../../src/http/config/all-problems.ts'
import { type Config, type Environment, loadConfig } from '../../src/http/config/load-config.ts'
import { VARIABLES } from '../../src/http/config/variables.ts'
import { PolicyFinder } from '../../src/http/request/policy/policy-finder.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { anyEnvironment, environmentOfPolicies, HUSH } from './environment.ts'
import { fuzz } from './fuzz.ts'

const MOST_CHARACTERS = 500

fuzz(
  'loadConfig() answers one line that names the variable and no secret, or a whole configuration, to any environment',
  600,
  fc.property(anyEnvironment, expectAnswer),
)

fuzz(
  'loadConfig() answers one line, or a whole configuration, to any policies',
  600,
  fc.property(environmentOfPolicies, expectAnswer),
)

type Table = Readonly<Record<string, unknown>>

const TABLES: readonly Table[] = [
  { name: 'users', limits: '5/1m', by: 'claim:sub' },
  { name: 'login', limits: '5/1m', by: 'ip' },
  { name: 'search', limits: '9/1m', by: 'ip+claim:sub' },
  { name: 'tariff', limits: { free: '2/1m', pro: '9/1m' }, plan: 'header:x-plan', default_plan: 'free' },
]
/** Mistakes that a table can have beside each other. */
const SEVERAL: readonly Table[] = [
  ...[{ burst: 3 }, { max_cost: 2 }, { limit: '1/1s' }, { penalty_after: 2 }, { failures: '5xx' }],
]
const ofTable = fc.oneof(
  fc.constantFrom<Table>({ limits: 'often' }, { algorithm: 'leaky' }, { cost: 99 }),
  fc.constantFrom<Table>({ limits: 'often', penalty: 'soon' }, { limit: '1/1s', penalty: 'soon', mode: 'on' }),
  fc.subarray([...SEVERAL], { minLength: 1 }).map((mistakes): Table => Object.assign({}, ...mistakes)),
)
/** The limits of each plan, and of callers without one. */
const ofPlans = fc
  .record({ free: fc.constantFrom('2/1m', '2/1q'), pro: fc.constantFrom('9/1m', 'often'), gold: fc.boolean() })
  .map(({ gold, ...limits }): Table => ({ limits, ...(gold && { default_plan: 'gold' }) }))
const ofVariables = fc.constantFrom<Table>(
  ...[
    { ANONYMOUS: 'allow' },
    { STORE_TIMEOUT_MS: 0 },
    { EXEMPT: 'x y z' },
    { RATE_LIMITS: 'often' },
    { JWT_ISSUER: ' ' },
  ],
)

/** A right configuration with mistakes, and where each of them is. */
const mistaken = fc
  .record({
    keys: fc.constantFrom<Table>({ JWT_SECRET: 'x'.repeat(32) }, { JWKS_URL: 'https://id.example.com/keys' }),
    tables: fc.tuple(...[ofTable, ofTable, ofTable, ofPlans].map((mistakes) => fc.option(mistakes))),
    name: fc.option(fc.constantFrom([1, 'users'], [2, 'users'], [2, 'login'], [0, 'default'], [2, 'default'])),
    variables: fc.option(ofVariables),
    isJson: fc.boolean(),
  })
  .map(({ keys, tables, name, variables, isJson }) => {
    const list = TABLES.map((table, at) => ({ ...table, ...tables[at], ...(name?.[0] === at && { name: name[1] }) }))
    const places = tables.flatMap((table, at) =>
      Object.entries(table ?? {}).flatMap(([key, value]) =>
        typeof value !== 'object' || value === null
          ? `POLICIES,${at},${key}`
          : Object.entries(value).flatMap(([plan, text]) => (/1m$/.test(text) ? [] : `POLICIES,${at},${key},${plan}`)),
      ),
    )
    return {
      env: {
        ...{
          UPSTREAM_URL: 'https://api.example.com',
          RATE_LIMITS: '10/1s',
          JWT_AUDIENCE: 'api',
          ...keys,
          ...variables,
        },
        POLICIES: isJson ? JSON.stringify(list) : list,
      },
      places: [...places, ...(name ? [`POLICIES,${name[0]},name`] : []), ...Object.keys(variables ?? {})],
    }
  })

fuzz(
  'findProblems() finds each mistake, whatever else is wrong, and blames nothing else',
  300,
  fc.property(mistaken, ({ env, places }) => {
    const { problems, config } = findProblems(env)
    expect(problems.map(({ variable, path }) => `${[variable, ...path]}`).toSorted()).toEqual(places.toSorted())
    expect(config).toBeDefined()
  }),
)

function expectAnswer(env: Environment): void {
  let config: Config
  try {
    config = loadConfig(env, ALL_READERS)
  } catch (error) {
    expectOneLine(error)
    expect(findProblems(env).problems).not.toEqual([])
    return
  }
  expectWhole(config)
  expect(findProblems(env).problems).toEqual([])
  expect(loadConfig(env, ALL_READERS)).toEqual(config)
}

function expectOneLine(error: unknown): void {
  expect(error).toBeInstanceOf(OptionError)
  const { variable, message } = error as OptionError
  expect(VARIABLES).toContain(variable)
  expect(message.startsWith(variable)).toBe(true)
  expect(message).not.toContain(HUSH)
  expect(message).not.toMatch(/[\r\n]/)
  expect(message).toMatch(/: (?:expected .+, got .+|unknown \w+; (?:expected one of|did you mean) .+)$/s)
  expect(message.length).toBeLessThan(MOST_CHARACTERS)
}

function expectWhole(config: Config): void {
  expectFrozen(config)
  const { upstreamUrl, redis, policies, ipv6Prefix, keyPrefix } = config
  expect(URL.canParse(`${upstreamUrl}/x`)).toBe(true)
  expect(upstreamUrl?.endsWith('/')).toBe(false)
  if (redis) expect([URL.canParse(redis.url), redis.token.length > 0]).toEqual([true, true])
  expect([Number.isInteger(ipv6Prefix), ipv6Prefix >= 16, ipv6Prefix <= 128]).toEqual([true, true, true])
  expect(keyPrefix).toMatch(/^[\w.:-]{1,64}$/)
  expect(policies.length).toBeGreaterThan(0)
  expectUnique(policies.map(({ name }) => name))
  expectUnique(policies.flatMap(({ limits }) => limits.map(({ name }) => name)))
  policies.forEach(expectSatisfiable)
  // Every pattern makes a route.
  expect(
    new PolicyFinder(policies, config.exempt).find({ meant: ['GET'], isCertain: true }, createPathReader()('/x')),
  ).toBeDefined()
}

/** A request of the highest cost and the lowest class fits into limits that nobody has spent from. */
function expectSatisfiable({ name, limits, burst, cost, reserved, by }: RequestPolicy): void {
  expect(name).toMatch(/^[\w-]{1,64}$/)
  expect(by.length).toBeGreaterThan(0)
  const windows = limits.map(({ windowMs }) => windowMs)
  expect(windows).toEqual([...new Set(windows)].sort((a, b) => a - b))
  for (const { limit, windowMs } of limits) {
    expect([Number.isSafeInteger(limit), Number.isSafeInteger(windowMs)]).toEqual([true, true])
    expect(Math.min(limit, windowMs)).toBeGreaterThanOrEqual(1)
  }
  const capacity = Math.min(burst ?? Number.POSITIVE_INFINITY, ...limits.map(({ limit }) => limit))
  const dearest = cost.kind === 'fixed' ? cost.units : cost.max
  expect([Number.isSafeInteger(dearest), dearest >= 1]).toEqual([true, true])
  for (const units of Object.values(reserved)) {
    expect([Number.isSafeInteger(units), units >= 0]).toEqual([true, true])
    expect(dearest + units).toBeLessThanOrEqual(capacity)
  }
  expect(reserved.critical <= reserved.default && reserved.default <= reserved.sheddable).toBe(true)
}

function expectFrozen(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  expect(Object.isFrozen(value)).toBe(true)
  Object.values(value).forEach(expectFrozen)
}

function expectUnique(names: readonly string[]): void {
  expect(new Set(names).size).toBe(names.length)
}
