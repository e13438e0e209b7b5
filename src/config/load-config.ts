import * as v from 'valibot'
import type { LeaseSize } from '../engine/leases.ts'
import type { GatewayConfig } from '../gateway/app.ts'
import type { StatisticsConfig } from '../gateway/statistics.ts'
import { createPassedTest } from '../http/passed-fields.ts'
import { DIALECTS } from '../http/rate-limit-fields.ts'
import type { Tier } from '../model/limits.ts'
import { LIMITS_EXPECTED } from '../model/limits.ts'
import { ON_STORE_ERROR } from '../model/policy.ts'
import type { JwtSettings } from '../request/identity/claims.ts'
import { ConfigError, HIDDEN } from './config-error.ts'
import { type JwtNames, jwksUrl, jwtName, jwtSecret, jwtSettingsOf } from './jwt.ts'
import { meantVariable } from './misspelt.ts'
import { DENY, type Names, type PolicyDefaults } from './policies.ts'
import { type PolicyTable, policyList } from './policy-schema.ts'
import { policiesOf } from './policy-set.ts'
import {
  configErrorOf,
  headerNames,
  host,
  httpUrl,
  integer,
  label,
  limits,
  matching,
  oneOf,
  patternList,
  restUrl,
  share,
  shareOrNone,
  signs,
} from './schema.ts'
import { SECRETS, VARIABLES } from './variables.ts'

/** Where counts may be kept. */
export const STORE_KINDS = ['redis', 'durable-object', 'memory'] as const
export type StoreKind = (typeof STORE_KINDS)[number]

/** Variables and bindings, as Workers hand them over. */
export type Environment = Readonly<Record<string, unknown>>

/** How the rules are followed. */
export interface RulesConfig {
  /** How long they hold before they are read again, in milliseconds. */
  readonly refreshMs: number
  /** Whether blocks refuse nobody. */
  readonly isShadow: boolean
}

/** The whole configuration, checked, complete and frozen. */
export interface Config extends GatewayConfig {
  /** Where counts are kept. */
  readonly store: StoreKind
  /** Where they are counted beside, because that is to take its place; undefined: nowhere. */
  readonly storeShadow: StoreKind | undefined
  /** Undefined if it is not named. */
  readonly redis: { readonly url: string; readonly token: string } | undefined
  /** Rules that change without a deploy; undefined: there are none. */
  readonly rules: RulesConfig | undefined
  readonly statistics: StatisticsConfig
  /** Permits taken in advance; undefined: none. */
  readonly leases: LeaseSize | undefined
  /** Whether requests are shed while the API is overloaded. */
  readonly isShedding: boolean
  /** Undefined: nothing is served to operators. */
  readonly admin: AdminConfig | undefined
  /** Undefined: nothing answers at `/_sluice/metrics`. */
  readonly metrics: { readonly token: string } | undefined
  /** Undefined: no policy asks for claims. */
  readonly jwt: JwtSettings | undefined
}

export interface AdminConfig {
  readonly token: string
  /** The only host where they are served, with its port if it has one; undefined: any. */
  readonly host: string | undefined
}

export const LEASES_EXPECTED = '"off", "auto" or an integer from 2 to 10000'

/** As it may stand in a field. */
const longSecret = matching(/^[\x21-\x7e]{32,}$/, 'at least 32 characters of ASCII, none of them a space')

export const environment = v.object({
  UPSTREAM_URL: v.optional(httpUrl),
  UPSTREAM_TIMEOUT_MS: v.optional(integer(1, 3_600_000), 30_000),
  UPSTREAM_SECRET: v.optional(longSecret),
  FORWARD_HEADERS: v.optional(headerNames),
  UPSTASH_REDIS_REST_URL: v.optional(restUrl),
  UPSTASH_REDIS_REST_TOKEN: v.optional(matching(/^[\x21-\x7e]+$/, 'the REST token of the database')),
  STORE: v.optional(oneOf(...STORE_KINDS)),
  STORE_SHADOW: v.optional(oneOf('redis', 'durable-object')),
  RATE_LIMITS: v.optional(v.union([v.literal('off'), limits], LIMITS_EXPECTED)),
  POLICIES: v.optional(policyList),
  ANONYMOUS: v.optional(oneOf('ip', 'deny'), 'ip'),
  IPV6_PREFIX: v.optional(integer(16, 128), 64),
  EXEMPT: v.optional(patternList),
  LITERAL_IN_PATHS: v.optional(signs),
  MODE: v.optional(oneOf('enforce', 'shadow'), 'enforce'),
  SHEDDING: v.optional(oneOf('on', 'off'), 'off'),
  RATELIMIT_HEADERS: v.optional(oneOf(...DIALECTS), 'draft-11'),
  STORE_TIMEOUT_MS: v.optional(integer(1, 60_000), 500),
  ON_STORE_ERROR: v.optional(oneOf(...ON_STORE_ERROR), 'local'),
  LOCAL_SHARE: v.optional(share, 1),
  LEASES: v.optional(v.union([oneOf('off', 'auto'), integer(2, 10_000, LEASES_EXPECTED)], LEASES_EXPECTED), 'off'),
  IDENTITY_SECRET: v.optional(matching(/^.{16,}$/s, 'at least 16 characters')),
  ADMIN_TOKEN: v.optional(longSecret),
  ADMIN_HOST: v.optional(host),
  JWKS_URL: v.optional(jwksUrl),
  JWT_SECRET: v.optional(jwtSecret),
  JWT_ISSUER: v.optional(jwtName),
  JWT_AUDIENCE: v.optional(jwtName),
  KEY_PREFIX: v.optional(matching(/^[\w.:-]{1,64}$/, 'up to 64 letters, digits, "_", ".", ":" or "-"'), 'sluice'),
  RULES: v.optional(oneOf('on', 'off'), 'off'),
  RULES_REFRESH_MS: v.optional(integer(100, 3_600_000), 5_000),
  STATISTICS: v.optional(oneOf('on', 'off'), 'off'),
  METRICS_TOKEN: v.optional(longSecret),
  LOG_LIMITED: v.optional(shareOrNone, 0),
  CALLER_LABEL: v.optional(label),
})

const NAMES: Names = { limits: 'RATE_LIMITS', policies: 'POLICIES', shedding: 'SHEDDING="on"' }
const JWT_NAMES: JwtNames = {
  jwksUrl: 'JWKS_URL',
  secret: 'JWT_SECRET',
  issuer: 'JWT_ISSUER',
  audience: 'JWT_AUDIENCE',
}

/** The tiers that hold if neither RATE_LIMITS nor POLICIES is set. */
const DEFAULT_LIMITS = [{ limit: 60, windowMs: 60_000 }]

/**
 * Reads and checks the configuration.
 * @throws {ConfigError} on the first value that is not what was expected
 */
export function loadConfig(given: Environment): Config {
  const env = withoutEmpty(given)
  const result = v.safeParse(environment, env, { abortEarly: true })
  if (!result.success) throw configErrorOf(result.issues[0])
  const values = result.output
  refuseMisspelt(env)

  if (values.UPSTREAM_URL === undefined && !isFetcher(env.UPSTREAM)) {
    throw new ConfigError('UPSTREAM_URL', 'the origin of your API (or a service binding named UPSTREAM)', undefined)
  }
  const forwardHeaders = values.FORWARD_HEADERS ?? []
  const defaults: PolicyDefaults = {
    names: NAMES,
    name: 'default',
    by: [{ kind: 'token' }],
    cost: undefined,
    isShadow: values.MODE === 'shadow',
    missing: values.ANONYMOUS === 'deny' ? DENY : { kind: 'ip' },
    missingInBody: DENY,
    onStoreError: values.ON_STORE_ERROR,
    isPassed: createPassedTest(forwardHeaders),
  }
  const tables = values.POLICIES
  const policies = policiesOf(tiersOf(values.RATE_LIMITS, tables), tables, defaults, values.SHEDDING === 'on')
  const redis = redisOf(values.UPSTASH_REDIS_REST_URL, values.UPSTASH_REDIS_REST_TOKEN)
  const store = storeOf(values.STORE, redis !== undefined, isNamespace(env[OBJECTS]))
  return deepFreeze({
    upstreamUrl: isFetcher(env.UPSTREAM) ? undefined : values.UPSTREAM_URL,
    upstreamTimeoutMs: values.UPSTREAM_TIMEOUT_MS,
    upstreamSecret: values.UPSTREAM_SECRET,
    forwardHeaders,
    store,
    storeShadow: shadowOf(values.STORE_SHADOW, store, redis !== undefined, isNamespace(env[OBJECTS])),
    redis,
    rules: values.RULES === 'on' ? { refreshMs: values.RULES_REFRESH_MS, isShadow: defaults.isShadow } : undefined,
    metrics: metricsOf(values.METRICS_TOKEN, values.STATISTICS === 'on'),
    admin: values.ADMIN_TOKEN === undefined ? undefined : { token: values.ADMIN_TOKEN, host: values.ADMIN_HOST },
    policies,
    jwt: jwtSettingsOf(
      {
        jwksUrl: values.JWKS_URL,
        secret: values.JWT_SECRET,
        issuer: values.JWT_ISSUER,
        audience: values.JWT_AUDIENCE,
      },
      JWT_NAMES,
      // Rules, and policies among them, may ask for claims.
      { policies, tables, name: NAMES.policies, areOpen: values.RULES === 'on', label: values.CALLER_LABEL },
    ),
    ipv6Prefix: values.IPV6_PREFIX,
    exempt: values.EXEMPT ?? [],
    literalInPaths: values.LITERAL_IN_PATHS ?? [],
    isShedding: values.SHEDDING === 'on' && !defaults.isShadow,
    dialect: values.RATELIMIT_HEADERS,
    storeTimeoutMs: values.STORE_TIMEOUT_MS,
    localShare: values.LOCAL_SHARE,
    leases: values.LEASES === 'off' ? undefined : values.LEASES,
    identitySecret: values.IDENTITY_SECRET,
    keyPrefix: values.KEY_PREFIX,
    statistics: {
      isOn: values.STATISTICS === 'on',
      logShare: values.LOG_LIMITED,
      label: values.CALLER_LABEL,
    },
  })
}

/** Without these, others are let in, or keys change: one that was lost on the way is not taken for none. */
export const NEVER_EMPTY: ReadonlySet<string> = new Set(['IDENTITY_SECRET', 'JWT_ISSUER', 'JWT_AUDIENCE', 'ADMIN_HOST'])

/** Forms of deploys leave a variable empty that nobody has filled in: it is not set. */
export function withoutEmpty(env: Environment): Environment {
  const isUnset = (name: string) => env[name] === '' && !NEVER_EMPTY.has(name)
  if (!VARIABLES.some(isUnset)) return env
  return Object.fromEntries(Object.entries(env).filter(([name]) => !isUnset(name)))
}

/** Whether a binding is a service to fetch from. */
export function isFetcher(binding: unknown): binding is { fetch: typeof fetch } {
  return typeof binding === 'object' && binding !== null && 'fetch' in binding
}

/** Name of the binding of the objects that count. */
export const OBJECTS = 'LIMITS'

/** Whether a binding is one of Durable Objects. */
export function isNamespace(binding: unknown): binding is DurableObjectNamespace {
  return typeof binding === 'object' && binding !== null && 'idFromName' in binding
}

/** @throws {ConfigError} if what the store needs is not there */
function storeOf(asked: StoreKind | undefined, hasRedis: boolean, hasObjects: boolean): StoreKind {
  refuseMissing('STORE', asked, hasRedis, hasObjects)
  return asked ?? (hasRedis ? 'redis' : hasObjects ? 'durable-object' : 'memory')
}

/** @throws {ConfigError} if what it needs is not there, or if it is the store itself */
function shadowOf<Kind extends StoreKind>(
  asked: Kind | undefined,
  store: StoreKind,
  hasRedis: boolean,
  hasObjects: boolean,
): Kind | undefined {
  if (asked !== undefined && asked === store) throw new ConfigError('STORE_SHADOW', 'another store than STORE', asked)
  refuseMissing('STORE_SHADOW', asked, hasRedis, hasObjects)
  return asked
}

function refuseMissing(
  name: 'STORE' | 'STORE_SHADOW',
  asked: StoreKind | undefined,
  hasRedis: boolean,
  hasObjects: boolean,
): void {
  if (asked === 'redis' && !hasRedis) {
    throw new ConfigError(name, 'UPSTASH_REDIS_REST_URL and its token with it', asked)
  }
  if (asked === 'durable-object' && !hasObjects) {
    throw new ConfigError(name, `a binding ${OBJECTS} of Durable Objects with it`, asked)
  }
}

/** @throws {ConfigError} A variable that is silently ignored could leave the API without limits. */
function refuseMisspelt(env: Environment): void {
  for (const [name, value] of Object.entries(env)) {
    const meant = typeof value === 'string' || Array.isArray(value) ? meantVariable(name) : undefined
    if (meant) throw new ConfigError(name, `no such variable (but ${meant})`, SECRETS.has(meant) ? HIDDEN : value)
  }
}

/** @throws {ConfigError} if there is nothing to tell */
function metricsOf(token: string | undefined, isCounting: boolean): Config['metrics'] {
  if (token === undefined) return undefined
  if (!isCounting) throw new ConfigError('METRICS_TOKEN', 'STATISTICS = "on" beside it', HIDDEN)
  return { token }
}

function redisOf(url: string | undefined, token: string | undefined): Config['redis'] {
  if (url !== undefined && token !== undefined) return { url, token }
  if (url !== undefined) {
    throw new ConfigError('UPSTASH_REDIS_REST_TOKEN', 'the token for UPSTASH_REDIS_REST_URL', undefined)
  }
  if (token !== undefined) {
    throw new ConfigError('UPSTASH_REDIS_REST_URL', 'the URL for UPSTASH_REDIS_REST_TOKEN', undefined)
  }
  return undefined
}

/** @throws {ConfigError} if there is to be no policy at all */
function tiersOf(
  limits: readonly Tier[] | 'off' | undefined,
  tables: readonly PolicyTable[] | undefined,
): readonly Tier[] | 'off' {
  if (limits === 'off' && !tables) throw new ConfigError('RATE_LIMITS', 'POLICIES beside "off"', limits)
  return limits ?? (tables ? 'off' : DEFAULT_LIMITS)
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(deepFreeze)
  return value
}
