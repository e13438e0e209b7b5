/** The schema for editors refuses nothing that is accepted, and the mistakes that a schema can find. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import fc from 'fast-check'
import { parse as parseJsonc } from 'jsonc-parser'
import { parse } from 'smol-toml'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { policyKeys } from '../../src/http/config/policy-keys.ts'
import { VARIABLES } from '../../src/http/config/variables.ts'
import { describeDefinitions, describeVariables, renderWranglerSchema } from '../../tools/wrangler-schema.ts'
import { anyEnvironment, environmentOfPolicies } from '../fuzz/environment.ts'
import { fuzz } from '../fuzz/fuzz.ts'

const ROOT = join(import.meta.dirname, '../..')
const CONFIGS = join(ROOT, 'test/command/config')
const ajv = new Ajv({ strict: false })
const definitions = describeDefinitions()
const validateVariables = ajv.compile({ ...describeVariables(true), definitions })
const validatePolicy = ajv.compile({ ...definitions.SluicePolicy, definitions })
const validateFile = ajv.compile(JSON.parse(renderWranglerSchema()))

const RIGHT = { UPSTREAM_URL: 'https://api.example.com' }
const isAccepted = (env: Readonly<Record<string, unknown>>) => {
  try {
    return loadConfig(env) !== undefined
  } catch {
    return false
  }
}
const isAcceptedPolicy = (policy: object) => isAccepted({ ...RIGHT, RATE_LIMITS: 'off', POLICIES: [policy] })

/** What TOML can hold. */
const toToml = (value: unknown) => JSON.parse(JSON.stringify(value))

for (const [name, environments] of Object.entries({ anyEnvironment, environmentOfPolicies })) {
  fuzz(
    `the schema accepts what loadConfig() does (${name})`,
    300,
    fc.property(environments, (env) => {
      if (!isAccepted(env)) return
      // An empty text is as good as none.
      const variables = toToml(Object.fromEntries(Object.entries(env).filter(([, value]) => value !== '')))
      expect(validateVariables(variables), ajv.errorsText(validateVariables.errors)).toBe(true)
    }),
  )
}

const files = globSync('*.{toml,json,jsonc}', { cwd: CONFIGS }).toSorted()
const readVariables = (file: string): Record<string, unknown> => {
  const text = readFileSync(join(CONFIGS, file), 'utf8')
  return (file.endsWith('.toml') ? parse(text) : parseJsonc(text)).vars ?? {}
}

test('the schema accepts each configuration of the tests that is accepted', () => {
  const accepted = files.filter((file) => isAccepted({ ...RIGHT, ...readVariables(file) }))
  expect(accepted.length).toBeGreaterThan(20)
  expect(accepted.filter((file) => !validateVariables(readVariables(file)))).toEqual([])
})

test('the schema accepts each policy that the docs show in TOML', () => {
  const pages = ['README.md', ...globSync('docs/*.md', { cwd: ROOT })].map((page) =>
    readFileSync(join(ROOT, page), 'utf8'),
  )
  const blocks = pages.flatMap((page) => [...page.matchAll(/^ *```toml\n(.*?)^ *```/gms)].map(([, text = '']) => text))
  const policies = blocks.flatMap((text) => {
    const { vars = {} } = parse(text) as { vars?: { POLICIES?: readonly object[] } }
    return Array.isArray(vars.POLICIES) ? vars.POLICIES : []
  })
  expect(policies.length).toBeGreaterThan(10)
  for (const policy of policies) expect(validatePolicy(policy), ajv.errorsText(validatePolicy.errors)).toBe(true)
})

/** A policy that needs no other key for the one that is tried. */
const A = { name: 'a', limits: '10/1m' }

describe('the schema refuses what is refused', () => {
  test.each<[string, unknown]>([
    ['name', 'a b'],
    ['limits', 'often'],
    ['limits', '10'],
    ['limits', '10/1y'],
    ['limits', ['10/1s']],
    ['limits', { free: '10/1' }],
    ['limits', { 'a b': '10/1s' }],
    ['by', 'heder:x'],
    ['by', 'header:'],
    ['by', 'header:x+'],
    ['by', 'json:id'],
    ['by', 'token ip'],
    ['match', 'users'],
    ['match', 'GET users'],
    ['match', ['GET /a', 'b']],
    ['match', []],
    ['algorithm', 'leaky'],
    ['fold', 'upper'],
    ['anonymous', 'deny:500'],
    ['cost', 0],
    ['cost', 'query:x'],
    ['cost', 1.5],
    ['actual_cost', 'cookie:x'],
    ['actual_cost', { bytes: 0 }],
    ['untold', 'json:/a'],
    ['on_disconnect', 'leave'],
    ['counts', 'errors'],
    ['failures', '600'],
    ['penalty', '10'],
    ['priority', 'low'],
    ['reserve', { critical: 1 }],
    ['refusal', { redirect: 'http://a.test' }],
    ['refusal', { text: 'no' }],
    ['mode', 'off'],
    ['ignore_case', 'no'],
    ['limit', '10/1s'],
  ])('%s = %j', (key, value) => {
    const policy = { ...A, [key]: value }
    expect(isAcceptedPolicy(A)).toBe(true)
    expect(isAcceptedPolicy(policy)).toBe(false)
    // That text without a window is a limit, only the algorithm tells.
    expect(validatePolicy(policy)).toBe(key === 'limits' && value === '10')
  })

  test.each([
    ['STORE', 'disk'],
    ['STORE_TIMEOUT_MS', 0],
    ['MODE', 'off'],
    ['RATE_LIMITS', '10 per second'],
    ['LEASES', 'on'],
    ['POLICIES', []],
  ])('%s = %j', (name, value) => {
    expect(isAccepted({ ...RIGHT, [name]: value })).toBe(false)
    expect(validateVariables({ [name]: value })).toBe(false)
  })
})

test('the schema of the whole file is that of Wrangler, with our variables, also of environments', () => {
  const file = parse(readFileSync(join(ROOT, 'wrangler.toml'), 'utf8'))
  expect(validateFile(file), ajv.errorsText(validateFile.errors)).toBe(true)
  expect(validateFile({ ...file, mian: 'src/worker.ts' })).toBe(false)
  expect(validateFile({ ...file, vars: { ...(file.vars as object), MINE: { any: ['thing'] } } })).toBe(true)
  for (const vars of [{ MODE: 'off' }, { POLICIES: [{ ...A, by: 'heder:x' }] }]) {
    expect(validateFile({ ...file, vars })).toBe(false)
    expect(validateFile({ ...file, env: { staging: { vars } } })).toBe(false)
  }
})

test('what editors show of a key is its sentence in the docs', () => {
  const properties = definitions.SluicePolicy.properties as Readonly<Record<string, { readonly description: string }>>
  expect(Object.keys(properties)).toEqual(Object.keys(policyKeys))
  expect(properties.penalty?.description).toBe(
    'How long, e.g. "10m", a refused caller stays refused by this policy (penalties).',
  )
  const described = describeVariables(true).properties as Readonly<Record<string, { readonly description?: string }>>
  expect(Object.values(described).filter(({ description = '' }) => !/^["A-Z].*\.$/s.test(description))).toEqual([])
  expect(
    VARIABLES.filter((name) => !Object.hasOwn(described, name)).every((name) => /SECRET|TOKEN|URL|SHARDS/.test(name)),
  ).toBe(true)
})
