/** The options of a middleware, and their checks. */
import { withLeases } from '../core/engine/leases/with-leases.ts'
import type { CostTerm } from '../core/model/cost.ts'
import { isFoldable, type Reading } from '../core/model/identity-source.ts'
import { LIMITS_EXPECTED } from '../core/model/limits.ts'
import { isEnforced, type PolicyMode, type ResponseHead } from '../core/model/policy.ts'
import type { LimitStatus } from '../core/model/verdict.ts'
import { readCalendarLimits } from '../core/options/calendar.ts'
import { OptionError } from '../core/options/option-error.ts'
import * as v from '../core/options/readers.ts'
import { createClocks } from '../core/runtime/clocks.ts'
import { createLoader } from '../core/runtime/create-loader.ts'
import { listNames, mapNames } from '../core/runtime/lists.ts'
import { consoleLog, createHook, throttle } from '../core/runtime/log.ts'
import { UpstreamHealth } from '../core/shedding/upstream-health.ts'
import { JWT, readJwtSettings } from '../http/config/load-config.ts'
import { createPolicies, DENY, FOLD_EXPECTED, type Names, type PolicyDefaults } from '../http/config/policies.ts'
import { BY, FOLD, LIMITS_BY_PLAN, MISSING_IDENTITY, type PolicyInput } from '../http/config/policy-keys.ts'
import { integer, LIMITS } from '../http/config/values.ts'
import { variables } from '../http/config/variables.ts'
import type { ClaimReader, JwtSettings } from '../http/request/identity/claims.ts'
import type { VerifierParts } from '../http/request/identity/jwt/verify-tokens.ts'
import { NONE } from '../http/request/identity/reading.ts'
import type { ObservedRequest } from '../http/request/rate-limit.ts'
import type { HeaderFormat } from '../http/response/rate-limit-headers.ts'
import { LIMITING_READERS, type LimitingOptions } from '../library/common-options.ts'
import { createWarn, type Warn } from './warnings.ts'

/** Status of the limits of all policies that apply, of which there is at least one. */
export type ReportedLimits = readonly [LimitStatus, ...LimitStatus[]]

/**
 * Options of a middleware: `limits`, `policies` or `shedding` is required. `Args` is what functions get: Hono's context,
 * Node's request, or a `Request` and what the platform gives beside it.
 */
export interface SharedOptions<Args extends unknown[]> extends LimitingOptions {
  /**
   * Limits of one policy: each applies at every moment, for each caller.
   * @example '10/1s, 100/1m'
   */
  readonly limits?: string | undefined
  /**
   * Limits of callers whose plan `plan` tells, over the same windows; all others have `limits`. What was used counts
   * whatever the plan.
   * @default none
   * @example { pro: '100/1s, 5000/1m' }
   */
  readonly plans?: Readonly<Record<string, string>> | undefined
  /**
   * Name of that policy in keys and headers. In one store, a name stands for the same limits.
   * @default 'default'
   * @example 'api'
   */
  readonly name?: string | undefined
  /**
   * Identity that callers are counted by.
   * @default 'token'
   * @example 'header:x-api-key'
   */
  readonly by?: string | undefined
  /**
   * Spellings that are one caller, for policies without a `by` of their own: `lower`, `trim` or `lower trim`.
   * @default none
   * @example 'lower'
   */
  readonly fold?: string | undefined
  /**
   * Policies with the same keys as in the gateway (docs/policies.md).
   * @default none
   * @example [{ name: 'login', limits: '5/1m', by: 'ip', match: 'POST /login' }]
   */
  readonly policies?: readonly PolicyInput[] | string | undefined
  /**
   * Requests that no policy evaluates.
   * @default none
   * @example 'OPTIONS *, GET /healthz'
   */
  readonly exempt?: string | readonly string[] | undefined
  /**
   * Returns the identity, instead of `by`, for the limits here and for policies without a `by` of their own. Undefined
   * or the empty string means no identity, for which `anonymous` applies.
   * @default none
   * @example (req) => req.user?.id, and for Hono: (c) => c.get('user')?.id
   */
  readonly identify?: ((...args: Args) => string | undefined | Promise<string | undefined>) | undefined
  /**
   * Returns the cost of a request, for the limits here and for policies without a `cost` of their own: an integer from
   * 1. Above the smallest limit, the request is answered 413. Anything else throws.
   * @default 1
   * @example (req) => (req.method === 'GET' ? 1 : 5), and for Hono: (c) => (c.req.method === 'GET' ? 1 : 5)
   */
  readonly cost?: ((...args: Args) => number | Promise<number>) | undefined
  /**
   * Returns the plan of a caller, for `plans` and for policies with limits by plan but without a `plan` of their own.
   * Undefined or an unknown plan means `limits`, or the policy's `default_plan`.
   * @default none
   * @example (req) => req.user?.plan, and for Hono: (c) => c.get('user')?.plan
   */
  readonly plan?: ((...args: Args) => string | undefined | Promise<string | undefined>) | undefined
  /**
   * Returns how long an admitted request waits for its handler, in milliseconds from 0, by what is left of its limits:
   * those of each policy, the shortest window first. It is not called where no policy applies, nor with `mode: 'shadow'`.
   * A request whose client goes meanwhile is not handled.
   * @default none
   * @example ([{ limit, remaining }]) => 500 * Math.max(0, limit - remaining - 5)
   */
  readonly delay?: ((limits: ReportedLimits, ...args: Args) => number | Promise<number>) | undefined
  /**
   * Called after each decision, in the asynchronous context of its request. What it throws is logged, and changes nothing.
   * @default none
   * @example ({ outcome, decidedBy, durationMs }) => histogram.record(durationMs, { outcome, decidedBy })
   */
  readonly onDecision?: ((decision: ObservedRequest, ...args: Args) => void) | undefined
  /**
   * Returns true for a response that fails, by its status and headers, for policies that count `failures` or `successes`
   * and have no `failures` of their own.
   * @default by its status
   * @example ({ status }, c) => status >= 400 || c.get('isRejected')
   */
  readonly isFailure?: ((response: ResponseHead, ...args: Args) => boolean) | undefined
  /**
   * Returns true for a request that no policy evaluates.
   * @default none
   * @example (req) => req.user?.isAdmin === true, and for Hono: (c) => c.get('user')?.isAdmin === true
   */
  readonly skip?: ((...args: Args) => boolean | Promise<boolean>) | undefined
  /**
   * Requests without identity: `ip` counts them by address, `skip` does not count them, `deny` answers 401.
   * @default 'ip'; 'deny' for identities in bodies
   * @example 'deny'
   */
  readonly anonymous?: string | undefined
  /**
   * Keys that verify tokens; required if a policy counts by a claim, or reads the plan from one.
   * @default none
   * @example { jwksUrl: 'https://id.example.com/.well-known/jwks.json' }
   */
  readonly jwt?: JwtOptions | undefined
  /**
   * `shadow` decides and reports, and never refuses.
   * @default 'enforce'
   * @example 'shadow'
   */
  readonly mode?: PolicyMode | undefined
  /**
   * True refuses requests of lower priority while the application is overloaded.
   * @default false
   * @example true
   */
  readonly shedding?: boolean | undefined
  /**
   * Format of the response headers that report the limits.
   * @default 'draft-11'
   * @example 'x-ratelimit'
   */
  readonly rateLimitHeaders?: HeaderFormat | undefined
  /**
   * Leading bits of an IPv6 address that make one caller, 16 to 128.
   * @default 64
   * @example 56
   */
  readonly ipv6Prefix?: number | undefined
  /**
   * Characters that the application keeps as data in a path, some of `%2F %5C %25 %3F %23 ;`, with spaces between.
   * @default none
   * @example '%2F ;'
   */
  readonly literalInPaths?: string | undefined
  /**
   * Number of proxies that add to `X-Forwarded-For`, or a function to the address.
   * @default none is believed
   * @example 1
   */
  readonly trustProxy?: number | ((...args: Args) => string | undefined) | undefined
}

/** Keys that verify JSON Web Tokens: either `jwksUrl` or `secret` is required. */
export interface JwtOptions {
  /**
   * URL of the issuer's key set (RFC 7517).
   * @example 'https://id.example.com/.well-known/jwks.json'
   */
  readonly jwksUrl?: string | undefined
  /**
   * Secret shared with an issuer that signs by HS256, HS384 or HS512: at least 32 characters.
   * @example process.env.JWT_SECRET
   */
  readonly secret?: string | undefined
  /**
   * Required value of `iss`.
   * @default any
   * @example 'https://id.example.com/'
   */
  readonly issuer?: string | undefined
  /**
   * Required value of `aud`, or one of its values.
   * @default any
   * @example 'https://api.example.com'
   */
  readonly audience?: string | undefined
}

const NAMES: Names = {
  limits: 'limits',
  policies: 'policies',
  shedding: 'shedding: true',
  by: 'by',
  jwt: (key) => `jwt.${key}`,
}

const JWT_READERS = mapNames(listNames(JWT), (key) => variables[JWT[key]])

const countsRequest = ({ kind }: CostTerm) => kind === 'bytes:request'

const READERS = {
  limits: LIMITS,
  plans: LIMITS_BY_PLAN,
  name: v.withDefault(v.NAME, 'default'),
  by: BY,
  fold: FOLD,
  policies: variables.POLICIES,
  exempt: variables.EXEMPT,
  identify: v.FUNCTION,
  cost: v.FUNCTION,
  plan: v.FUNCTION,
  delay: v.FUNCTION,
  onDecision: v.FUNCTION,
  isFailure: v.FUNCTION,
  skip: v.FUNCTION,
  anonymous: MISSING_IDENTITY,
  jwt: v.table(JWT_READERS, 'a table of options'),
  mode: variables.MODE,
  shedding: v.withDefault(v.BOOLEAN, false),
  rateLimitHeaders: variables.RATELIMIT_HEADERS,
  ipv6Prefix: variables.IPV6_PREFIX,
  literalInPaths: variables.LITERAL_IN_PATHS,
  trustProxy: v.either(v.FUNCTION, integer(1, 20), 'a number of proxies from 1 to 20, or a function'),
  onLimited: v.FUNCTION,
  ...LIMITING_READERS,
  leases: variables.LEASES,
  localShare: variables.LOCAL_SHARE,
} satisfies Readonly<Record<keyof SharedOptions<never> | 'onLimited', v.Reader>>

/** The plan of `limits`, beside plans. */
const DEFAULT_PLAN = 'default'

/** @throws {OptionError} on the first invalid option */
export function readMiddlewareOptions<Args extends unknown[]>(options: SharedOptions<Args>) {
  const values = v.readOptions('', options, READERS)
  const { identify, cost, plan, plans, delay, isFailure, skip, trustProxy } = options
  const clocks = createClocks(options.now)
  const { now } = clocks
  const log = throttle(options.log ?? consoleLog, now)
  const warn = createWarn(log)
  if (identify && values.by) throw new OptionError('by', 'no "by" beside the function "identify"', options.by)
  const by = identify
    ? [{ kind: 'application' as const, tell: createTell('identify', identify, warn) }]
    : (values.by ?? [{ kind: 'token' as const }])
  if (values.fold && !by.some(isFoldable)) throw new OptionError('fold', FOLD_EXPECTED, values.fold)
  const isShadow = !isEnforced({ mode: values.mode })
  if (!values.limits && !values.policies && !values.shedding) {
    throw new OptionError('limits', LIMITS_EXPECTED, undefined)
  }
  if (plans && (!values.limits || !plan || Object.hasOwn(plans, DEFAULT_PLAN))) {
    const expected = `limits and the function "plan" beside it, and no plan "${DEFAULT_PLAN}": that is limits`
    throw new OptionError('plans', expected, Object.keys(plans))
  }
  const source = plan && { kind: 'application' as const, tell: createTell('plan', plan, warn) }
  const defaults: PolicyDefaults = {
    names: NAMES,
    name: values.name,
    by,
    fold: values.fold,
    cost: cost && createCost(cost),
    plan: source,
    byDefault: plans && DEFAULT_PLAN,
    isFailure: isFailure && ((head, args: Args) => isFailure(head, ...args)),
    mode: values.mode,
    anonymous: values.anonymous ?? { kind: 'ip' },
    anonymousInBody: values.anonymous ?? DENY,
    onStoreError: values.onStoreError,
    // No proxy stands between a client and an app: it sees every field.
    isPassed: () => true,
    readCalendarLimits,
  }
  // The application reads the body, or does not, by means of its own.
  for (const [index, { actual_cost: terms, untold }] of (values.policies ?? []).entries()) {
    const isUnseen = terms?.some(countsRequest)
    if (!isUnseen && !(typeof untold === 'object' && countsRequest(untold))) continue
    const name = ['policies', index, isUnseen ? 'actual_cost' : 'untold']
    throw new OptionError(name, 'no "bytes:request" outside the gateway', 'bytes:request')
  }
  const limits = plans && values.limits ? { [DEFAULT_PLAN]: values.limits, ...plans } : values.limits
  const policies = createPolicies(limits ?? 'off', values.policies, defaults, values.shedding)
  if (source && !policies.some(({ plans }) => plans?.source === source)) {
    throw new OptionError('plan', 'plans, or a policy with limits by plan and no plan of its own, beside it', plan)
  }
  const jwt = readJwtSettings(values.jwt ?? {}, NAMES, { policies, tables: values.policies })
  return {
    policies,
    exempt: values.exempt ?? [],
    ipv6Prefix: values.ipv6Prefix,
    keyPrefix: values.keyPrefix,
    identitySecret: values.identitySecret,
    localShare: values.localShare,
    leases: values.leases === 'off' ? undefined : withLeases(values.leases),
    readClaim: jwt && createLazyVerifier(jwt, { fetch: (url, init) => fetch(url, init), now, log }),
    health: values.shedding && !isShadow ? new UpstreamHealth(clocks.readSteadyMs ?? now) : undefined,
    headerFormat: values.rateLimitHeaders,
    literalInPaths: values.literalInPaths ?? [],
    delay: delay && !isShadow ? createDelay(delay) : undefined,
    onDecision: createHook('onDecision', options.onDecision, log),
    skip,
    trustProxy,
    log,
    warn,
    ...clocks,
  }
}

/** Makes a reader that loads `jose` for the first token. */
function createLazyVerifier(settings: JwtSettings, parts: VerifierParts): ClaimReader {
  const load = createLoader(async () => {
    const { loadTokenVerifier } = await import('../http/request/identity/jwt/verify-tokens.ts')
    return loadTokenVerifier(settings, parts)
  })
  return async (...args) => (await load())(...args)
}

/** A function that has told nothing of so many requests is probably called too early, or looks in the wrong place. */
const MAX_SILENT = 100

/** @throws {TypeError} for a mistake of the application, by which no caller must pass as one without an identity */
function createTell<Args extends unknown[]>(
  option: 'identify' | 'plan',
  tell: (...args: Args) => unknown,
  warn: Warn,
): (args: Args) => Promise<Reading> {
  let silent = 0
  return async (args) => {
    const value = await tell(...args)
    if (value === undefined || value === '') {
      if (++silent === MAX_SILENT) warn('unknown_identity')
      return NONE
    }
    silent = Number.NaN
    if (typeof value === 'string') return { kind: 'value', value }
    const got = value === null ? 'null' : `a ${typeof value}`
    throw new TypeError(`${option}: expected a string or undefined, got ${got}`)
  }
}

/** @throws {RangeError} for a mistake of the application, which another cost in its place would hide */
function createCost<Args extends unknown[]>(
  cost: (...args: Args) => unknown,
): (args: Args, max: number) => Promise<number> {
  return async (args, max) => {
    const units = await cost(...args)
    if (typeof units === 'number' && (Number.isInteger(units) ? units >= 1 : units > max)) return units
    throw new RangeError(`cost: expected an integer from 1 to ${max}, got ${String(units)}`)
  }
}

/** @throws {RangeError} for a mistake of the application */
function createDelay<Args extends unknown[]>(
  delay: (limits: ReportedLimits, ...args: Args) => unknown,
): (limits: ReportedLimits, args: Args) => Promise<number> {
  return async (limits, args) => {
    const waitMs = await delay(limits, ...args)
    if (typeof waitMs === 'number' && waitMs >= 0 && waitMs < Number.POSITIVE_INFINITY) return waitMs
    throw new RangeError(`delay: expected milliseconds from 0, got ${String(waitMs)}`)
  }
}
