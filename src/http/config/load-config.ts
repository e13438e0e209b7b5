/** Reads the configuration of a gateway from its variables. */
import type { IdentitySource } from '../../core/model/identity-source.ts'
import { isEnforced, type RequestPolicy } from '../../core/model/policy.ts'
import { OptionError } from '../../core/options/option-error.ts'
import type { ReadCalendarLimits } from '../../core/options/read-limits.ts'
import { listNames } from '../../core/runtime/lists.ts'
import type { JwtSettings } from '../request/identity/claims.ts'
import { createPassedTest } from '../response/forwarded-headers.ts'
import { createPolicies, DENY, type JwtValues, type Names, type PolicyDefaults } from './policies.ts'
import type { PolicyTable } from './policy-keys.ts'
import type { readShards as ReadShards } from './shards.ts'
import { STORE_KINDS, type StoreKind, type StoreKindEntry } from './store-kinds.ts'
import { findMeantVariable, readVariables, VARIABLES } from './variables.ts'

export type Environment = Readonly<Record<string, unknown>>

/** Readers of what few gateways have. */
export interface MoreReaders {
  readonly readCalendarLimits?: ReadCalendarLimits | undefined
  readonly readShards?: typeof ReadShards | undefined
}

/** The whole configuration, checked, complete and frozen. */
export type Config = Readonly<ReturnType<typeof loadConfig>>
export type RulesConfig = NonNullable<Config['rules']>
export type AdminConfig = NonNullable<Config['admin']>

export const JWT = {
  jwksUrl: 'JWKS_URL',
  secret: 'JWT_SECRET',
  issuer: 'JWT_ISSUER',
  audience: 'JWT_AUDIENCE',
} as const

const NAMES: Names = {
  limits: 'RATE_LIMITS',
  policies: 'POLICIES',
  shedding: 'SHEDDING="on"',
  by: 'POLICIES',
  jwt: (key) => JWT[key],
}

const DEFAULT_LIMITS = '60/1m'

/**
 * Reads and checks the configuration.
 * @param readers without `readCalendarLimits`, limits by day, week, month or year are refused
 * @throws {OptionError} on the first value that is not what was expected
 */
export function loadConfig(given: Environment, { readCalendarLimits, readShards }: MoreReaders = {}) {
  const env = withoutEmpty(given)
  const values = readVariables(env)
  refuseMisspelt(env)

  const { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token, POLICIES: tables, RATE_LIMITS: limits } = values
  const shards = readShards?.(env)
  const redis = url !== undefined && token !== undefined ? { url, token } : shards?.[0]
  const { STORE_MIRROR: storeMirror } = values
  const store = values.STORE ?? listNames(STORE_KINDS).find((kind) => isAvailable(kind, env)) ?? 'memory'
  const hasService = isBinding<Service>(env.UPSTREAM, 'fetch')
  const isShadow = !isEnforced({ mode: values.MODE })
  const lacksUpstream = values.UPSTREAM_URL === undefined && !hasService
  const lacksMirror = storeMirror !== undefined && !isAvailable(storeMirror, env)
  const lacksStatistics = values.METRICS_TOKEN !== undefined && values.STATISTICS === 'off'
  const contradictions: readonly (readonly [name: string, isWrong: boolean, expected: string, shown?: unknown])[] = [
    ['UPSTREAM_URL', lacksUpstream, 'the origin of your API (or a service binding named UPSTREAM)'],
    ['UPSTASH_REDIS_REST_URL', url === undefined && token !== undefined, 'the URL for UPSTASH_REDIS_REST_TOKEN'],
    ['UPSTASH_REDIS_REST_TOKEN', url !== undefined && token === undefined, 'the token for UPSTASH_REDIS_REST_URL'],
    ['STORE', !isAvailable(store, env), `${STORE_KINDS[store].needs} with it`, store],
    ['STORE_MIRROR', storeMirror === store, 'another store than STORE', storeMirror],
    ['STORE_MIRROR', lacksMirror, `${STORE_KINDS[storeMirror ?? store].needs} with it`, storeMirror],
    ['RATE_LIMITS', limits === 'off' && !tables, 'POLICIES beside "off"', limits],
    ['METRICS_TOKEN', lacksStatistics, 'STATISTICS = "on" beside it', values.METRICS_TOKEN],
  ]
  for (const [name, isWrong, expected, shown] of contradictions) {
    if (isWrong) throw new OptionError(name, expected, shown)
  }
  const forwardHeaders = values.FORWARD_HEADERS ?? []
  const defaults: PolicyDefaults = {
    names: NAMES,
    name: 'default',
    by: [{ kind: 'token' }],
    cost: undefined,
    mode: values.MODE,
    anonymous: values.ANONYMOUS === 'deny' ? DENY : { kind: 'ip' },
    anonymousInBody: DENY,
    onStoreError: values.ON_STORE_ERROR,
    isPassed: createPassedTest(forwardHeaders),
    readCalendarLimits,
  }
  const policies = createPolicies(limits ?? (tables ? 'off' : DEFAULT_LIMITS), tables, defaults, values.SHEDDING)
  const { JWKS_URL: jwksUrl, JWT_SECRET: secret, JWT_ISSUER: issuer, JWT_AUDIENCE: audience } = values
  return freezeDeep({
    /** Has no trailing slash; undefined if the service binding is used. */
    upstreamUrl: hasService ? undefined : values.UPSTREAM_URL,
    upstreamTimeoutMs: values.UPSTREAM_TIMEOUT_MS,
    upstreamSecret: values.UPSTREAM_SECRET,
    forwardHeaders,
    store,
    /** Receives every charge before a migration. */
    storeMirror,
    redis,
    /** Several databases, of which `redis` is the first. */
    shards: shards && shards.length > 1 ? shards : undefined,
    /** Blocks refuse nothing in shadow mode. */
    rules: values.RULES ? { refreshMs: values.RULES_REFRESH_MS, isShadow } : undefined,
    metrics: values.METRICS_TOKEN === undefined ? undefined : { token: values.METRICS_TOKEN },
    admin: values.ADMIN_TOKEN === undefined ? undefined : { token: values.ADMIN_TOKEN, host: values.ADMIN_HOST },
    decideToken: values.DECIDE_TOKEN,
    policies,
    // Runtime rules may read claims, and bring policies that do.
    jwt: readJwtSettings({ jwksUrl, secret, issuer, audience }, NAMES, {
      policies,
      tables,
      hasRules: values.RULES,
      label: values.CALLER_LABEL,
    }),
    ipv6Prefix: values.IPV6_PREFIX,
    mergesParameters: values.MERGED_PARAMETERS,
    exempt: values.EXEMPT ?? [],
    literalInPaths: values.LITERAL_IN_PATHS ?? [],
    isShedding: values.SHEDDING && !isShadow,
    headerFormat: values.RATELIMIT_HEADERS,
    onStoreError: values.ON_STORE_ERROR,
    isShadow,
    corsOrigins: values.CORS_ORIGINS,
    isSelfService: values.SELF_SERVICE,
    rewritesLocation: values.REWRITE_LOCATION,
    storeTimeoutMs: values.STORE_TIMEOUT_MS,
    localShare: values.LOCAL_SHARE,
    leases: values.LEASES === 'off' ? undefined : values.LEASES,
    identitySecret: values.IDENTITY_SECRET,
    keyPrefix: values.KEY_PREFIX,
    statistics: {
      isOn: values.STATISTICS !== 'off',
      keepsRecent: values.STATISTICS === 'on',
      logShare: values.LOG_REFUSALS,
      label: values.CALLER_LABEL,
    },
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

function isAvailable(kind: StoreKind, env: Environment): boolean {
  const { variables, binding }: StoreKindEntry = STORE_KINDS[kind]
  const isBound = !binding || isBinding<Record<string, unknown>>(env[binding.name], binding.method)
  return isBound && variables.some((names) => names.every((name) => env[name] !== undefined))
}

export type Service = Pick<typeof globalThis, 'fetch'>

export function isBinding<Kind>(binding: unknown, method: keyof Kind & string): binding is Kind {
  return typeof binding === 'object' && binding !== null && method in binding
}

/** @throws {OptionError} A variable that is silently ignored could leave the API without limits. */
function refuseMisspelt(env: Environment): void {
  for (const [name, value] of Object.entries(env)) {
    const meant = typeof value === 'string' || Array.isArray(value) ? findMeantVariable(name) : undefined
    if (meant) throw new OptionError(name, `unknown variable; did you mean ${meant}?`, value, 'UNKNOWN_VARIABLE')
  }
}

function freezeDeep<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(freezeDeep)
  return value
}

interface Claimants {
  readonly policies: readonly RequestPolicy[]
  readonly tables: readonly PolicyTable[] | undefined
  readonly hasRules?: boolean
  readonly label?: IdentitySource | undefined
}

/** @throws {OptionError} if claims are read without keys or with two kinds of them, or there are keys and no claims */
export function readJwtSettings(values: JwtValues, names: Names, claimants: Claimants): JwtSettings | undefined {
  const { jwksUrl: url, secret, issuer, audience } = values
  const claim = findFirstClaim(names, claimants)
  if (claim || claimants.hasRules) {
    if (url !== undefined && secret !== undefined) {
      throw new OptionError(names.jwt('secret'), `none beside ${names.jwt('jwksUrl')}`, secret)
    }
    if (url !== undefined) return { keys: { kind: 'jwks', url }, issuer, audience }
    if (secret !== undefined) return { keys: { kind: 'secret', secret }, issuer, audience }
  }
  if (claim)
    throw new OptionError(claim.where, `${names.jwt('jwksUrl')} or ${names.jwt('secret')} beside a claim`, claim.text)
  const unused = listNames(JWT).find((key) => values[key] !== undefined)
  if (unused === undefined) return undefined
  throw new OptionError(names.jwt(unused), 'a policy with by or plan = "claim:<name>" beside it', values[unused])
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
