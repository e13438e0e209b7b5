import * as v from 'valibot'
import { type Config, type Environment, loadConfig, withoutEmpty } from './load-config.ts'
import { OptionError } from './option-error.ts'
import { environment, toOptionError } from './variables.ts'

/** All that is wrong with a configuration, and what it would be without that. */
export interface Problems {
  /** In the order of the schema. */
  readonly problems: readonly OptionError[]
  /** With something harmless in place of what is wrong; undefined if it could not be found out. */
  readonly config: Config | undefined
}

/** In place of limits and tables that are wrong, so that they are not reported as missing. */
const STAND_IN_LIMITS = '1/1m'
const MAX_PROBLEMS = 1_000
const JWT_VARIABLES: ReadonlySet<string> = new Set(['JWKS_URL', 'JWT_SECRET', 'JWT_ISSUER', 'JWT_AUDIENCE'])

/** Finds everything for which `loadConfig` would refuse the configuration, not only the first. */
export function findProblems(given: Environment): Problems {
  const env = withoutEmpty(given)
  const { issues = [] } = v.safeParse(environment, env)
  const problems: OptionError[] = []
  const isSaid = ({ variable, path }: OptionError) =>
    problems.some((other) => other.variable === variable && `${other.path}` === `${path}`)
  let rest = env
  // A table that is left out for another mistake would no longer share its name.
  for (const problem of [...issues.map((issue) => toOptionError(issue)), ...repeatedNames(env)]) {
    if (isSaid(problem)) continue
    problems.push(problem)
    rest = without(rest, problem)
  }
  while (problems.length < MAX_PROBLEMS) {
    try {
      return { problems, config: loadConfig(rest) }
    } catch (error) {
      if (!(error instanceof OptionError)) throw error
      if (isSaid(error)) break
      // Whoever asks for claims may be left out already.
      if (!(JWT_VARIABLES.has(error.variable) && asksForClaims(env) && !asksForClaims(rest))) problems.push(error)
      rest = without(rest, error)
    }
  }
  return { problems, config: undefined }
}

/** The configuration with something harmless in place of what is wrong. */
function without(env: Environment, { variable, path }: OptionError): Environment {
  const { [variable]: _, ...rest } = env
  switch (variable) {
    case 'UPSTREAM_URL':
      return { ...rest, UPSTREAM_URL: 'https://stand-in.invalid' }
    case 'UPSTASH_REDIS_REST_URL':
    case 'UPSTASH_REDIS_REST_TOKEN': {
      const { UPSTASH_REDIS_REST_URL: _url, UPSTASH_REDIS_REST_TOKEN: _token, ...others } = rest
      return others
    }
    case 'JWKS_URL':
    case 'JWT_SECRET': {
      const { JWKS_URL: _url, JWT_SECRET: _secret, ...others } = rest
      return asksForClaims(env) ? { ...others, JWKS_URL: 'https://stand-in.invalid' } : others
    }
    case 'RATE_LIMITS':
      return { ...rest, RATE_LIMITS: STAND_IN_LIMITS }
    case 'POLICIES':
      return { ...rest, POLICIES: withoutTable(env.POLICIES, path) }
    default:
      return rest
  }
}

function withoutTable(value: unknown, [index, key]: OptionError['path']): unknown {
  const tables = typeof value === 'string' ? parseTables(value) : value
  if (!Array.isArray(tables)) return [{ name: 'stand-in', limits: STAND_IN_LIMITS }]
  return tables.map((table, at) => {
    if (at !== index) return table
    if (key === 'name') return { ...table, name: `stand-in-${at}` }
    return { name: findUniqueName(tables, at), limits: STAND_IN_LIMITS }
  })
}

/** Names of tables that another one before has, or that RATE_LIMITS makes. */
function repeatedNames({ RATE_LIMITS: limits, POLICIES: value }: Environment): readonly OptionError[] {
  const tables = typeof value === 'string' ? parseTables(value) : value
  if (!Array.isArray(tables)) return []
  const names = tables.map((table) => (table as { name?: unknown } | null)?.name)
  const isMade = limits !== undefined && limits !== 'off'
  return names.flatMap((name, at) => {
    const expected = isMade && name === 'default' ? 'another name: RATE_LIMITS makes "default"' : 'a name used once'
    const isRepeated = names.indexOf(name) < at || (isMade && name === 'default')
    return typeof name === 'string' && isRepeated ? [new OptionError(['POLICIES', at, 'name'], expected, name)] : []
  })
}

function asksForClaims({ POLICIES: value, CALLER_LABEL: label }: Environment): boolean {
  return JSON.stringify([value, label]).includes('claim:')
}

/** The table's own name, if it is one and no other table has it. */
function findUniqueName(tables: readonly unknown[], at: number): string {
  const names = tables.map((table) => (table as { name?: unknown } | null)?.name)
  const name = names[at]
  const isGood = typeof name === 'string' && /^[\w-]{1,64}$/.test(name) && name !== 'default'
  return isGood && names.indexOf(name) === names.lastIndexOf(name) ? name : `stand-in-${at}`
}

function parseTables(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}
