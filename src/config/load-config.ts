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
import { DENY, type JwtValues, makePolicies, type Names, type PolicyDefaults } from './policies.ts'
import type { PolicyTable } from './policy-keys.ts'
import { environment, meantVariable, SECRETS, type StoreKind, toOptionError, VARIABLES } from './variables.ts'

/** Variables and bindings of a Worker. */
export type Environment = Readonly<Record<string, unknown>>

export interface GatewayConfig extends LimiterConfig {
  /** Has no trailing slash; undefined if the service binding is used. */
  readonly upstreamUrl: string | undefined
  /** Applies to the beginning of a response. */
  readonly upstreamTimeoutMs: number
  /** Added to forwarded requests. */
  readonly upstreamSecret: string | undefined
  /** Headers that are forwarded although they claim an address, a user or a URL; in lower case. */
  readonly forwardHeaders: readonly string[]
  readonly literalInPaths: readonly PathLiteral[]
  readonly headerFormat: HeaderFormat
}

export interface StatisticsConfig {
  readonly isOn: boolean
  /** Share of the refusals that are logged, 0 to 1. */
  readonly logShare: number
  /** Reads the name by which operators know a caller. */
  readonly label: LabelSource | undefined
}

export interface RulesConfig {
  readonly refreshMs: number
  /** Blocks then refuse nothing. */
  readonly isShadow: boolean
}

export interface AdminConfig {
  readonly token: string
  /** The only host of the admin API, with its port if it has one; undefined: any. */
  readonly host: string | undefined
}

/** The whole configuration, checked, complete and frozen. */
export interface Config extends GatewayConfig {
  readonly store: StoreKind
  /** The mirror, which receives every charge before a migration. */
  readonly storeMirror: StoreKind | undefined
  readonly redis: { readonly url: string; readonly token: string } | undefined
  /** Undefined: no runtime rules are read. */
  readonly rules: RulesConfig | undefined
  readonly statistics: StatisticsConfig
  readonly leases: LeaseSize | undefined
  readonly isShedding: boolean
  /** Undefined: there is no admin API. */
  readonly admin: AdminConfig | undefined
  /** Undefined: there is no `/_sluice/metrics`. */
  readonly metrics: { readonly token: string } | undefined
  /** Undefined: no policy reads claims. */
  readonly jwt: JwtSettings | undefined
}

const NAMES: Names = {
  limits: 'RATE_LIMITS',
  policies: 'POLICIES',
  shedding: 'SHEDDING="on"',
  by: 'POLICIES',
  jwksUrl: 'JWKS_URL',
  secret: 'JWT_SECRET',
  issuer: 'JWT_ISSUER',
  audience: 'JWT_AUDIENCE',
}

/** Apply if neither RATE_LIMITS nor POLICIES is set. */
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
    anonymous: values.ANONYMOUS === 'deny' ? DENY : { kind: 'ip' },
    anonymousInBody: DENY,
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
  if (values.STORE_MIRROR === store) throw new OptionError('STORE_MIRROR', 'another store than STORE', store)
  refuseMissing('STORE_MIRROR', values.STORE_MIRROR, available)
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
    storeMirror: values.STORE_MIRROR,
    redis,
    rules: values.RULES === 'on' ? { refreshMs: values.RULES_REFRESH_MS, isShadow } : undefined,
    metrics: values.METRICS_TOKEN === undefined ? undefined : { token: values.METRICS_TOKEN },
    admin: values.ADMIN_TOKEN === undefined ? undefined : { token: values.ADMIN_TOKEN, host: values.ADMIN_HOST },
    policies,
    // Runtime rules may read claims, and bring policies that do.
    jwt: readJwtSettings({ jwksUrl, secret, issuer, audience }, NAMES, {
      policies,
      tables,
      hasRules: values.RULES === 'on',
      label: values.CALLER_LABEL,
    }),
    ipv6Prefix: values.IPV6_PREFIX,
    exempt: values.EXEMPT ?? [],
    literalInPaths: values.LITERAL_IN_PATHS ?? [],
    isShedding: isShedding && !isShadow,
    headerFormat: values.RATELIMIT_HEADERS,
    storeTimeoutMs: values.STORE_TIMEOUT_MS,
    localShare: values.LOCAL_SHARE,
    leases: values.LEASES === 'off' ? undefined : values.LEASES,
    identitySecret: values.IDENTITY_SECRET,
    keyPrefix: values.KEY_PREFIX,
    statistics: { isOn: isCounting, logShare: values.LOG_REFUSALS, label: values.CALLER_LABEL },
  })
}

/** Without these, others are admitted, or keys change: an empty one is refused. */
export const NEVER_EMPTY: ReadonlySet<string> = new Set(['IDENTITY_SECRET', 'JWT_ISSUER', 'JWT_AUDIENCE', 'ADMIN_HOST'])

/** Deploy forms leave a variable empty that was not filled in: it counts as unset. */
export function withoutEmpty(env: Environment): Environment {
  const isUnset = (name: string) => env[name] === '' && !NEVER_EMPTY.has(name)
  if (!VARIABLES.some(isUnset)) return env
  return Object.fromEntries(Object.entries(env).filter(([name]) => !isUnset(name)))
}

export function isFetcher(binding: unknown): binding is { fetch: typeof fetch } {
  return typeof binding === 'object' && binding !== null && 'fetch' in binding
}

/** Name of the binding of Durable Objects. */
export const OBJECTS = 'LIMITS'

function isNamespace(binding: unknown): binding is DurableObjectNamespace {
  return typeof binding === 'object' && binding !== null && 'idFromName' in binding
}

/** @throws {OptionError} if a store lacks its credentials or binding */
function refuseMissing(
  name: 'STORE' | 'STORE_MIRROR',
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
    const shown = meant && SECRETS.has(meant) ? HIDDEN : value
    if (meant) throw new OptionError(name, `unknown variable; did you mean ${meant}?`, shown, 'UNKNOWN_VARIABLE')
  }
}

function readRedis(url: string | undefined, token: string | undefined): Config['redis'] {
  if (url === undefined && token === undefined) return undefined
  if (url === undefined) {
    throw new OptionError('UPSTASH_REDIS_REST_URL', 'the URL for UPSTASH_REDIS_REST_TOKEN', undefined)
  }
  if (token !== undefined) return { url, token }
  throw new OptionError('UPSTASH_REDIS_REST_TOKEN', 'the token for UPSTASH_REDIS_REST_URL', undefined)
}

/** @throws {OptionError} if there would be no policy at all */
function readLimits(limits: string | undefined, tables: readonly PolicyTable[] | undefined): string {
  if (limits === 'off' && !tables) throw new OptionError('RATE_LIMITS', 'POLICIES beside "off"', limits)
  return limits ?? (tables ? 'off' : DEFAULT_LIMITS)
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(deepFreeze)
  return value
}

/** Policies that may read claims. */
interface Claimants {
  readonly policies: readonly RequestPolicy[]
  readonly tables: readonly PolicyTable[] | undefined
  /** Runtime rules may read claims as well. */
  readonly hasRules?: boolean
  readonly label?: IdentitySource | undefined
}

/**
 * Reads how tokens are verified; undefined if no claims are read.
 * @throws {OptionError} if claims are read and there are no keys, or two kinds of them, or there are keys and no claims
 */
export function readJwtSettings(values: JwtValues, names: Names, claimants: Claimants): JwtSettings | undefined {
  const { jwksUrl: url, secret, issuer, audience } = values
  const claim = findFirstClaim(names, claimants)
  if (claim || claimants.hasRules) {
    if (url !== undefined && secret !== undefined) {
      throw new OptionError(names.secret, `none beside ${names.jwksUrl}`, HIDDEN)
    }
    if (url !== undefined) return { keys: { kind: 'jwks', url }, issuer, audience }
    if (secret !== undefined) return { keys: { kind: 'secret', secret }, issuer, audience }
  }
  if (claim) throw new OptionError(claim.where, `${names.jwksUrl} or ${names.secret} beside a claim`, claim.text)
  const unused = (['jwksUrl', 'secret', 'issuer', 'audience'] as const).find((key) => values[key] !== undefined)
  if (unused === undefined) return undefined
  const shown = unused === 'secret' ? HIDDEN : values[unused]
  throw new OptionError(names[unused], 'a policy with by or plan = "claim:<name>" beside it', shown)
}

function findFirstClaim(names: Names, { policies, tables = [], label }: Claimants) {
  for (const { name, by, plans } of policies) {
    const claim = [...by, plans?.source].find((source) => source?.kind === 'claim')
    if (claim?.kind !== 'claim') continue
    const index = tables.findIndex((table) => table.name === name)
    const key = plans?.source === claim ? 'plan' : 'by'
    return { where: tables[index]?.[key] ? [names.policies, index, key] : names.by, text: `claim:${claim.name}` }
  }
  return label?.kind === 'claim' ? { where: 'CALLER_LABEL', text: `claim:${label.name}` } : undefined
}
