/** Loads the configuration of a Worker outside of it, without its secrets. */

import { ALL_READERS } from '../http/config/all-problems.ts'
import { type Config, type Environment, loadConfig } from '../http/config/load-config.ts'
import { STORE_KINDS } from '../http/config/store-kinds.ts'
import type { Settings } from './settings/settings.ts'
import type { Path } from './settings/wrangler-file.ts'
import type { Terminal } from './terminal.ts'

/** One database, or several: the variables of either are enough. */
const DATABASES: readonly (readonly string[])[] = STORE_KINDS.redis.variables
const [DATABASE = []] = DATABASES
const OBJECTS = STORE_KINDS['durable-object'].binding
const PLACES = ['UPSTREAM_URL', 'STORE', 'STORE_MIRROR', ...DATABASES.flat()]

/** Loads the Worker's configuration without its upstream and database. @throws {OptionError} */
export function loadWorkerConfig(settings: Settings): Config {
  return loadConfig(toEnvironment(settings), ALL_READERS)
}

export function toEnvironment(settings: Settings): Environment {
  // Counters can be read despite a wrong upstream; and --redis may be combined with a token alone.
  return { ...withKnownKeys(withoutPositions(settings)), UPSTREAM: { fetch() {} } }
}

/** The variables but for those of upstream and stores. */
export function withoutPositions({ variables }: Settings): Environment {
  return Object.fromEntries(Object.entries(variables).filter(([name]) => !PLACES.includes(name)))
}

/** All that the Worker gets, with stand-ins for bindings and for values that only Cloudflare knows. */
export function readEnvironment(settings: Settings, view: 'deployed' | 'development'): Environment {
  const env: Record<string, unknown> = { ...settings.variables, ...readBindings(settings) }
  // `npm run dev` starts an API if none is named.
  if (view === 'development') env.UPSTREAM_URL ??= 'http://127.0.0.1'
  // A move from one store to the other needs both.
  const needsRedis = env.STORE === 'redis' || env.STORE_MIRROR !== undefined
  const knowsRedis = DATABASE.some((name) => env[name] !== undefined)
  const isNamed = DATABASES.some((names) => names.every((name) => env[name] !== undefined))
  // Cloudflare may know what is missing here; `npm run dev` starts its own Redis if none is named.
  if (isNamed) return view === 'deployed' ? withKnownKeys(env) : env
  if (view === 'deployed' ? knowsRedis || needsRedis : needsRedis && !knowsRedis) {
    for (const name of DATABASE) env[name] ??= createStandIn(name)
  }
  return view === 'deployed' ? withKnownKeys(env) : env
}

/** Stand-ins for the bindings of Wrangler's file that the gateway uses. */
function readBindings({ file, root }: Settings): Environment {
  const hasBinding = (key: 'name' | 'binding', name: string, ...path: Path) => {
    const bindings = file?.get(...root, ...path)
    return Array.isArray(bindings) && bindings.some((each) => each?.[key] === name)
  }
  return {
    ...(hasBinding('binding', 'UPSTREAM', 'services') && { UPSTREAM: { fetch() {} } }),
    ...(hasBinding('name', OBJECTS.name, 'durable_objects', 'bindings') && {
      [OBJECTS.name]: { [OBJECTS.method]() {} },
    }),
    ...(hasBinding('binding', 'ANALYTICS', 'analytics_engine_datasets') && { ANALYTICS: { writeDataPoint() {} } }),
  }
}

/** The secrets that the Worker has; undefined if Wrangler's file does not say. */
export function readRequiredSecrets({ file, root }: Settings): readonly string[] | undefined {
  const required = file?.get(...root, 'secrets', 'required')
  return Array.isArray(required) ? required : undefined
}

/** Adds a stand-in for the keys of tokens if they are missing: only Cloudflare may know them. */
function withKnownKeys(env: Environment): Environment {
  const hasKeys = env.JWKS_URL !== undefined || env.JWT_SECRET !== undefined
  const needsKeys = /"claim:|\+\s*claim:/.test(JSON.stringify(env.POLICIES ?? ''))
  return needsKeys && !hasKeys ? { ...env, JWT_SECRET: createStandIn('JWT_SECRET') } : env
}

/** A value that is accepted for a secret which only Cloudflare knows. */
function createStandIn(name: string): string {
  const [url, token] = ['https://known-elsewhere.invalid', `${name}_known_to_Cloudflare_alone`]
  if (name === 'UPSTASH_REDIS_REST_URL') return url
  return name === 'REDIS_SHARDS'
    ? JSON.stringify([1, 2].map((n) => ({ name: `${n}`, url: `${url}/${n}`, token })))
    : token
}

export function noteDigests({ variables }: Settings, terminal: Terminal): void {
  if (variables.IDENTITY_SECRET !== undefined) return
  terminal.note('note: IDENTITY_SECRET is not known here: if the Worker has one, these are not its keys')
}
