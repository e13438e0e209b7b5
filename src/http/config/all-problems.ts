/** Finds all mistakes of a configuration, not only the first. */
import { readCalendarLimits } from '../../core/options/calendar.ts'
import { OptionError } from '../../core/options/option-error.ts'
import { NAME } from '../../core/options/readers.ts'
import { type Environment, loadConfig, type MoreReaders, withoutEmpty } from './load-config.ts'
import { readShards } from './shards.ts'
import { parseJson } from './values.ts'
import { readVariables } from './variables.ts'

/** Reads the variables of any gateway. */
export const ALL_READERS: MoreReaders = { readCalendarLimits, readShards }

/** Replaces invalid limits and tables, so that they are not reported as missing. */
const STAND_IN_LIMITS = '1/1m'
const STAND_IN_URL = 'https://stand-in.invalid'
const MAX_PROBLEMS = 1_000

/**
 * Finds everything for which `loadConfig` would refuse the configuration, not only the first problem.
 * @returns the problems, those of single values first, and the configuration with something harmless in place of each
 * invalid value; undefined if that is not enough
 */
export function findProblems(given: Environment) {
  const env = withoutEmpty(given)
  const problems: OptionError[] = []
  const isKnown = ({ option }: OptionError) => problems.some((other) => other.option === option)
  /** Messages about tables so far, also those that come of what took the place of other mistakes. */
  const seen = new Set<string>()
  let rest = env
  /** Each value is right by itself: what is wrong then may come of what has been replaced. */
  let isRead = false
  // A mistake in a table may be met twice: as it was written, and in what took its place.
  for (let reads = 0; reads < 2 * MAX_PROBLEMS && problems.length < MAX_PROBLEMS; reads++) {
    try {
      readVariables(rest)
      isRead = true
      return { problems, config: loadConfig(rest, ALL_READERS) }
    } catch (error) {
      if (!(error instanceof OptionError)) throw error
      const isRepeated = seen.has(error.message)
      seen.add(error.message)
      if (error.variable === 'POLICIES' && (isKnown(error) || (isRead && isInduced(error, env, rest)))) {
        // If what took its place is wrong, too, nothing more can be found in this table.
        rest = { ...rest, POLICIES: replaceTable(rest.POLICIES, isRepeated ? error.path.slice(0, 1) : error.path) }
        continue
      }
      if (isKnown(error)) break
      // The table that needs the JWT settings may be replaced already.
      if (!(/^JW(?:KS|T)_/.test(error.variable) && usesClaims(env) && !usesClaims(rest))) problems.push(error)
      rest = replaceInvalid(rest, error)
    }
  }
  return { problems, config: undefined }
}

function replaceInvalid(env: Environment, { variable, path }: OptionError): Environment {
  const rest: Record<string, unknown> = { ...env }
  delete rest[variable]
  if (variable.startsWith('UPSTASH_REDIS_REST_')) {
    delete rest.UPSTASH_REDIS_REST_URL
    delete rest.UPSTASH_REDIS_REST_TOKEN
  } else if (variable === 'JWKS_URL' || variable === 'JWT_SECRET') {
    delete rest.JWT_SECRET
    delete rest.JWKS_URL
    if (usesClaims(env)) rest.JWKS_URL = STAND_IN_URL
  } else if (variable === 'UPSTREAM_URL') rest.UPSTREAM_URL = STAND_IN_URL
  else if (variable === 'RATE_LIMITS') rest.RATE_LIMITS = STAND_IN_LIMITS
  else if (variable === 'POLICIES') {
    // Once it is read, JSON has no name twice.
    const isJson = path.length === 0 && typeof env.POLICIES === 'string'
    rest.POLICIES = (isJson && readTables(env.POLICIES)) || replaceTable(env.POLICIES, path)
  }
  return rest
}

type RawTable = Readonly<Record<string, unknown>>

/** A mistake that may come of what has been left out of its table: its message names that. */
function isInduced({ path: [index, key, plan], message }: OptionError, env: Environment, rest: Environment): boolean {
  const [before, after] = [env, rest].map(({ POLICIES }) => readTables(POLICIES)?.[index as number])
  const isSame = (key: string) => JSON.stringify(before?.[key]) === JSON.stringify(after?.[key])
  const changed = Object.keys(before ?? {}).filter((key) => key !== 'name' && !isSame(key))
  // Each plan has limits of its own, also if those of others were wrong.
  if (key === 'limits' && plan !== undefined) return false
  // Its plan was left out for its limits.
  if (key === 'default_plan') return Object.hasOwn(readPlans(before) ?? {}, `${before?.default_plan}`)
  // A limit may be given by others, a burst or a cost.
  const names = changed.flatMap((key) => [key, key.replace(/s$/, '')])
  return names.some((name) => message.includes(name))
}

function readTables(value: unknown): readonly RawTable[] | undefined {
  const tables = typeof value === 'string' ? parseJson(value) : value
  return Array.isArray(tables) ? tables : undefined
}

/** Leaves out what is wrong in a table; without a key, all of it. */
function replaceTable(value: unknown, [index, key, plan]: OptionError['path']): unknown {
  const tables = readTables(value)
  if (!tables || index === undefined) return [{ name: 'stand-in', limits: STAND_IN_LIMITS }]
  return tables.map((table, at) => {
    if (at !== index) return table
    if (key === 'name') return { ...table, name: `stand-in-${at}` }
    const plans = readPlans(table)
    if (key === 'limits' && plans && plan !== undefined) return { ...table, limits: removeKey(plans, plan) }
    if (key === 'limits') return { ...table, limits: STAND_IN_LIMITS }
    if (key === 'default_plan' && plans) return { ...table, default_plan: Object.keys(plans)[0] }
    if (key !== undefined) return removeKey(table, key)
    // It keeps its name, so that a repeated name is still found.
    const isNamed = typeof table?.name === 'string' && NAME.pattern.test(table.name)
    return { name: isNamed ? table.name : `stand-in-${at}`, limits: STAND_IN_LIMITS }
  })
}

function readPlans(table: RawTable | undefined): RawTable | undefined {
  return typeof table?.limits === 'object' && table.limits !== null ? (table.limits as RawTable) : undefined
}

function removeKey(table: RawTable, key: string | number): RawTable {
  return Object.fromEntries(Object.entries(table).filter(([name]) => name !== key))
}

function usesClaims({ POLICIES: tables, CALLER_LABEL: label }: Environment): boolean {
  return JSON.stringify([tables, label]).includes('claim:')
}
