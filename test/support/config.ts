/** Environments for `loadConfig()`, and what it says of those that it refuses. */
import { expect } from 'vitest'
import { OptionError } from '../../src/core/options/option-error.ts'
import { type Config, type Environment, loadConfig } from '../../src/http/config/load-config.ts'
import { readShards } from '../../src/http/config/shards.ts'

export const UPSTREAM_URL = 'https://api.example.com'
export const OBJECTS = { LIMITS: { idFromName() {} } }
export const REDIS = { UPSTASH_REDIS_REST_URL: 'https://eu1-x.upstash.io', UPSTASH_REDIS_REST_TOKEN: 'AXX+/=' }
export const A = { name: 'a', limits: '5/1m' }

export const LIMITS = 'limits such as "10/1s, 120/1m"'
export const PATTERNS =
  'patterns such as "GET /users/:id, POST /upload/*, OPTIONS *" (a method of HTTP, "*" or nothing for all of them)'
export const DURATION = 'a duration from 1ms to 53w such as "30s" (units ms s m h d w)'

export const PASSED =
  'header fields that go on to the API: of letters, digits and "-", and none that a proxy replaces (X-Forwarded-… and the like)'
export const LARGE =
  '100000 (for more, a policy with algorithm = "quota", or one that allows a large log: allow_large_log, in code allowLargeLog)'

export const load = (env: Environment): Config => loadConfig({ UPSTREAM_URL, ...env })

/** What a policy is where its table says nothing; and nothing else is defined. */
export const PLAIN = {
  algorithm: 'sliding-window',
  onStoreError: 'local',
  counts: 'requests',
  failures: [],
  anonymous: { kind: 'ip' },
  reserved: { critical: 0, default: 0, sheddable: 0 },
  mode: 'enforce',
  ignoresCase: true,
  onDisconnect: 'read',
}

export const PLANS = {
  name: 'api',
  limits: { free: '10/1m, 100/1d', pro: '600/1m, 9000/1d' },
  plan: 'header:X-Plan',
  default_plan: 'free',
}

export function toPattern(text: string) {
  const [method = '', path = ''] = text.split(' ')
  return { method, path }
}

/** @returns the line with which `loadConfig()` refuses an environment */
export function readMessage(env: Environment): string {
  try {
    loadConfig(env, { readShards })
  } catch (error) {
    expect(error).toBeInstanceOf(OptionError)
    return (error as OptionError).message
  }
  throw new Error('a configuration error was expected')
}

/** Values that a setting refuses, by what it expects in their place. */
export type BadExamples = Readonly<Record<string, readonly unknown[]>>

/** @returns each setting with each of its bad examples, what is expected and how a message shows the value */
export function listCases(examples: Readonly<Record<string, BadExamples>>) {
  return Object.entries(examples).flatMap(([setting, bad]) => {
    const cases = Object.entries(bad).flatMap(([expected, values]) =>
      values.map((value) => ({ setting, value, expected, shown: showStart(value) })),
    )
    if (cases.length === 0) throw new Error(`${setting} has no bad example`)
    return cases
  })
}

function showStart(value: unknown): string {
  if (typeof value === 'number') return `${value}`
  return JSON.stringify(value).replace(/^(.{100}).+$/s, '$1…')
}

const NO_INTEGERS = [' ', ' 5', '5 ', '+5', '-5', '5.5', '1e3', '0x10', '0', 0, -1, 1.5, Number.NaN, true, null, [5]]

export const refuseIntegers = (min: number, max: number): BadExamples => ({
  [`an integer from ${min} to ${max}`]: [...NO_INTEGERS, '30s', min - 1, max + 1, `${max + 1}`],
})

export const refuseNames = (...names: readonly string[]): BadExamples => ({
  [names.map((name) => `"${name}"`).join(' or ')]: ['other', names[0]?.toUpperCase(), ` ${names[0]}`, true, null],
})
