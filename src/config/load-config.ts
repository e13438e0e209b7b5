import * as v from 'valibot'
import type { LeaseSize } from '../engine/leases.ts'
import type { LimiterConfig } from '../engine/limiter.ts'
import { createPassedTest } from '../http/forwarded-headers.ts'
import type { HeaderFormat } from '../http/rate-limit-headers.ts'
import type { IdentitySource, RequestPolicy } from '../model/policy.ts'
import type { JwtSettings } from '../request/identity/claims.ts'
import type { PathLiteral } from '../request/target.ts'
import type { LabelSource } from '../statistics/label.ts'
import { HIDDEN, OptionError } from './option-error.ts'
import { DENY, makePolicies, type Names, type PolicyDefaults } from './policies.ts'
import type { PolicyTable } from './policy-keys.ts'
import { environment, meantVariable, SECRETS, type StoreKind, toOptionError, VARIABLES } from './variables.ts'

/** Variables and bindings, as Workers hand them over. */
export type Environment = Readonly<Record<string, unknown>>

/** How a gateway behaves. */
export interface GatewayConfig extends LimiterConfig {
  /** Where requests go, without a trailing slash; undefined if the service binding is used. */
  readonly upstreamUrl: string | undefined
  /** Time for the upstream to begin its answer. */
  readonly upstreamTimeoutMs: number
  /** Added to requests that go to the upstream; undefined: nothing is. */
  readonly upstreamSecret: string | undefined
  /** Names of headers that go on to the upstream although they claim an address, a user or a URL; in lower case. */
  readonly forwardHeaders: readonly string[]
  /** What the upstream is known to keep as data in a path. */
  readonly literalInPaths: readonly PathLiteral[]
  readonly dialect: HeaderFormat
}

export interface StatisticsConfig {
  /** Whether requests are counted. */
  readonly isOn: boolean
  /** Of the refusals that are logged, 0 to 1. */
  readonly logShare: number
  /** Where the name stands by which people know a caller; undefined: nowhere. */
  readonly label: LabelSource | undefined
}

export interface RulesConfig {
  /** How long they hold before they are read again. */
  readonly refreshMs: number
  /** Whether blocks refuse nobody. */
  readonly isShadow: boolean
}

export interface AdminConfig {
  readonly token: string
  /** The only host where they are served, with its port if it has one; undefined: any. */
  readonly host: string | undefined
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

const NAMES: Names = { limits: 'RATE_LIMITS', policies: 'POLICIES', shedding: 'SHEDDING="on"' }
const JWT_NAMES: JwtNames = {
  jwksUrl: ['JWKS_URL'],
  secret: ['JWT_SECRET'],
  issuer: ['JWT_ISSUER'],
  audience: ['JWT_AUDIENCE'],
}

/** The tiers that hold if neither RATE_LIMITS nor POLICIES is set. */
const DEFAULT_LIMITS = '60/1m'

/**
 * Reads and checks the configuration.
 * @throws {OptionError} on the first value that is not what was expected
 */
export function loadConfig(given: Environment): Config {
  const env = withoutEmpty(given)
  const result = v.safeParse(environment, env, { abortEarly: true })
  if (!result.success) throw toOptionError(result.issues[0])
  const values = result.output
  refuseMisspelt(env)

  if (values.UPSTREAM_URL === undefined && !isFetcher(env.UPSTREAM)) {
    throw new OptionError('UPSTREAM_URL', 'the origin of your API (or a service binding named UPSTREAM)', undefined)
  }
  const forwardHeaders = values.FORWARD_HEADERS ?? []
  const isShadow = values.MODE === 'shadow'
  const isShedding = values.SHEDDING === 'on'
  const isCounting = values.STATISTICS === 'on'
  const tables = values.POLICIES
  const defaults: PolicyDefaults = {
    names: NAMES,
    name: 'default',
    by: [{ kind: 'token' }],
    cost: undefined,
    isShadow,
    missing: values.ANONYMOUS === 'deny' ? DENY : { kind: 'ip' },
    missingInBody: DENY,
    onStoreError: values.ON_STORE_ERROR,
    isPassed: createPassedTest(forwardHeaders),
  }
  const policies = makePolicies(readLimits(values.RATE_LIMITS, tables), tables, defaults, isShedding)
  const redis = readRedis(values.UPSTASH_REDIS_REST_URL, values.UPSTASH_REDIS_REST_TOKEN)
  const available: Readonly<Record<StoreKind, boolean>> = {
    redis: redis !== undefined,
    'durable-object': isNamespace(env[OBJECTS]),
    memory: true,
  }
  refuseMissing('STORE', values.STORE, available)
  const store = values.STORE ?? (Object.keys(available) as StoreKind[]).find((kind) => available[kind]) ?? 'memory'
  if (values.STORE_SHADOW === store) throw new OptionError('STORE_SHADOW', 'another store than STORE', store)
  refuseMissing('STORE_SHADOW', values.STORE_SHADOW, available)
  if (values.METRICS_TOKEN !== undefined && !isCounting) {
    throw new OptionError('METRICS_TOKEN', 'STATISTICS = "on" beside it', HIDDEN)
  }
  const { JWKS_URL: jwksUrl, JWT_SECRET: secret, JWT_ISSUER: issuer, JWT_AUDIENCE: audience } = values
  return deepFreeze({
    upstreamUrl: isFetcher(env.UPSTREAM) ? undefined : values.UPSTREAM_URL,
    upstreamTimeoutMs: values.UPSTREAM_TIMEOUT_MS,
    upstreamSecret: values.UPSTREAM_SECRET,
    forwardHeaders,
    store,
    storeShadow: values.STORE_SHADOW,
    redis,
    rules: values.RULES === 'on' ? { refreshMs: values.RULES_REFRESH_MS, isShadow } : undefined,
    metrics: values.METRICS_TOKEN === undefined ? undefined : { token: values.METRICS_TOKEN },
    admin: values.ADMIN_TOKEN === undefined ? undefined : { token: values.ADMIN_TOKEN, host: values.ADMIN_HOST },
    policies,
    // Rules, and policies among them, may ask for claims.
    jwt: readJwtSettings({ jwksUrl, secret, issuer, audience }, JWT_NAMES, {
      policies,
      tables,
      name: NAMES.policies,
      areOpen: values.RULES === 'on',
      label: values.CALLER_LABEL,
    }),
    ipv6Prefix: values.IPV6_PREFIX,
    exempt: values.EXEMPT ?? [],
    literalInPaths: values.LITERAL_IN_PATHS ?? [],
    isShedding: isShedding && !isShadow,
    dialect: values.RATELIMIT_HEADERS,
    storeTimeoutMs: values.STORE_TIMEOUT_MS,
    localShare: values.LOCAL_SHARE,
    leases: values.LEASES === 'off' ? undefined : values.LEASES,
    identitySecret: values.IDENTITY_SECRET,
    keyPrefix: values.KEY_PREFIX,
    statistics: { isOn: isCounting, logShare: values.LOG_LIMITED, label: values.CALLER_LABEL },
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

/** @throws {OptionError} if what a store needs is not there */
function refuseMissing(
  name: 'STORE' | 'STORE_SHADOW',
  kind: StoreKind | undefined,
  available: Readonly<Record<StoreKind, boolean>>,
): void {
  if (kind === undefined || available[kind]) return
  const needed = kind === 'redis' ? 'UPSTASH_REDIS_REST_URL and its token' : `a binding ${OBJECTS} of Durable Objects`
  throw new OptionError(name, `${needed} with it`, kind)
}

/** @throws {OptionError} A variable that is silently ignored could leave the API without limits. */
function refuseMisspelt(env: Environment): void {
  for (const [name, value] of Object.entries(env)) {
    const meant = typeof value === 'string' || Array.isArray(value) ? meantVariable(name) : undefined
    if (!meant) continue
    throw new OptionError(
      name,
      `no such variable (but ${meant})`,
      SECRETS.has(meant) ? HIDDEN : value,
      'UNKNOWN_VARIABLE',
    )
  }
}

function readRedis(url: string | undefined, token: string | undefined): Config['redis'] {
  if (url !== undefined && token !== undefined) return { url, token }
  if (url !== undefined) {
    throw new OptionError('UPSTASH_REDIS_REST_TOKEN', 'the token for UPSTASH_REDIS_REST_URL', undefined)
  }
  if (token !== undefined) {
    throw new OptionError('UPSTASH_REDIS_REST_URL', 'the URL for UPSTASH_REDIS_REST_TOKEN', undefined)
  }
  return undefined
}

/** @throws {OptionError} if there is to be no policy at all */
function readLimits(limits: string | undefined, tables: readonly PolicyTable[] | undefined): string {
  if (limits === 'off' && !tables) throw new OptionError('RATE_LIMITS', 'POLICIES beside "off"', limits)
  return limits ?? (tables ? 'off' : DEFAULT_LIMITS)
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(deepFreeze)
  return value
}

export interface JwtValues {
  readonly jwksUrl?: string | undefined
  readonly secret?: string | undefined
  readonly issuer?: string | undefined
  readonly audience?: string | undefined
}

/** What settings are called: a variable, or an option and what is below it. */
export type JwtNames = Readonly<Record<keyof JwtValues, readonly string[]>>

/** Policies, and where they are written. */
export interface Claimants {
  readonly policies: readonly RequestPolicy[]
  readonly tables: readonly PolicyTable[] | undefined
  /** The variable, or option, of the tables. */
  readonly name: string
  /** The option that holds for policies without a `by` of their own. */
  readonly by?: string
  /** Whether others may come later that ask for claims. */
  readonly areOpen?: boolean
  /** Where the name stands by which people know callers. */
  readonly label?: IdentitySource | undefined
}

/**
 * How tokens are verified; undefined if nobody asks for claims.
 * @throws {OptionError} if policies ask for claims and there are no keys, or two kinds of them, or nobody asks for them
 */
export function readJwtSettings(values: JwtValues, names: JwtNames, claimants: Claimants): JwtSettings | undefined {
  const { jwksUrl: url, secret, issuer, audience } = values
  const fail = (key: keyof JwtValues, expected: string): never => {
    throw new OptionError(names[key], expected, key === 'secret' ? HIDDEN : values[key])
  }
  const claim = firstClaim(claimants)
  const [urlName, secretName] = [names.jwksUrl.join('.'), names.secret.join('.')]
  if (claim || claimants.areOpen) {
    if (url !== undefined && secret !== undefined) fail('secret', `none beside ${urlName}`)
    if (url !== undefined) return { keys: { kind: 'jwks', url }, issuer, audience }
    if (secret !== undefined) return { keys: { kind: 'secret', secret }, issuer, audience }
  }
  if (claim) throw new OptionError(claim.where, `${urlName} or ${secretName} beside a claim`, claim.text)
  for (const key of Object.keys(names) as (keyof JwtValues)[]) {
    if (values[key] !== undefined) fail(key, 'a policy with by or plan = "claim:<name>" beside it')
  }
  return undefined
}

/** The first use of a claim, and where it is written. */
function firstClaim({ policies, tables = [], name: variable, by = variable, label }: Claimants) {
  for (const { name, by: sources, plans } of policies) {
    const claim = [...sources, plans?.source].find((source) => source?.kind === 'claim')
    if (claim?.kind !== 'claim') continue
    const index = tables.findIndex((table) => table.name === name)
    const key = plans?.source === claim ? 'plan' : 'by'
    return { where: tables[index]?.[key] ? [variable, index, key] : [by], text: `claim:${claim.name}` }
  }
  return label?.kind === 'claim' ? { where: ['CALLER_LABEL'], text: `claim:${label.name}` } : undefined
}
