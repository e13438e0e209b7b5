/**
 * The variables of the Worker: the one place where a name, its default and its meaning stand. `npm run settings` writes
 * the comments below into docs/configuration.md, wrangler.toml, .dev.vars.example and package.json.
 * `@default` stands for a default that the schema does not have, `@example` for a value where the comment has no "e.g.",
 * and `@deploy` is what a deploy button asks.
 */

import * as v from 'valibot'
import { HEADER_FORMATS } from '../http/rate-limit-headers.ts'
import { LIMITS_EXPECTED } from '../model/limits.ts'
import { ON_STORE_ERROR, POLICY_MODES } from '../model/policy.ts'
import { MIN_SECRET_CHARACTERS } from '../request/identity/claims.ts'
import { HIDDEN, IDENTITY_SECRET, KEY_PREFIX, OptionError, RENAMED } from './option-error.ts'
import { policyList } from './policy-keys.ts'
import {
  headerNames,
  host,
  httpUrl,
  integer,
  jwksUrl,
  label,
  leases,
  limits,
  longSecret,
  matching,
  oneOf,
  patternList,
  restUrl,
  share,
  shareOrNone,
  signs,
  textLike,
} from './values.ts'

const STORE_KINDS = ['redis', 'durable-object', 'memory'] as const
export type StoreKind = (typeof STORE_KINDS)[number]

const onOrOff = oneOf('on', 'off')
const jwtName = matching(/^\S{1,1000}$/, 'up to 1000 characters without spaces')

const secrets = new Set<unknown>()

/** A variable that no message may show: it is a secret, or a secret is easily put there by mistake. */
function secret<const Schema extends v.GenericSchema>(schema: Schema) {
  const variable = v.optional(schema)
  secrets.add(variable)
  return variable
}

/** The schema of each variable. */
export const variables = {
  /**
   * origin of the API, base path kept; or a service binding named `UPSTREAM`, which then gets the request's own URL
   * @example https://api.example.com
   * @deploy Origin of the API behind the gateway, such as `https://origin.example.com`. Not the host at which the gateway
   * itself will answer.
   */
  UPSTREAM_URL: v.optional(httpUrl),
  /** time for the API to begin its answer; then 504 */
  UPSTREAM_TIMEOUT_MS: v.optional(integer(1, 3_600_000), 30_000),
  /**
   * at least 32 characters: sent to the API in the field `Sluice-Secret`, by which it
   * [knows the gateway](gateway.md#only-through-the-gateway)
   */
  UPSTREAM_SECRET: secret(longSecret),
  /**
   * headers that [claim an address, a user or a URL](http.md#what-reaches-your-api) and reach the API all the same,
   * e.g. `Cf-Access-Authenticated-User-Email`
   */
  FORWARD_HEADERS: v.optional(headerNames),
  /**
   * the REST URL of the database, if Redis is to count
   * @deploy REST URL of a Redis database at [Upstash](https://console.upstash.com): a regional one, near most of your
   * traffic, with eviction off.
   */
  UPSTASH_REDIS_REST_URL: secret(restUrl),
  /**
   * its REST token
   * @deploy REST token of that database: the one that may write, not the read-only one.
   */
  UPSTASH_REDIS_REST_TOKEN: secret(matching(/^[\x21-\x7e]+$/, 'the REST token of the database')),
  /**
   * `redis`, `durable-object` or `memory`: [where counts are kept](stores.md), by default Redis if it is named, else in
   * Durable Objects
   * @default see there @example redis
   */
  STORE: v.optional(oneOf(...STORE_KINDS)),
  /**
   * `redis` or `durable-object`: the store that is to take over, charged beside
   * [until its windows are full](operations.md#moving-to-another-store)
   * @example durable-object
   */
  STORE_MIRROR: v.optional(oneOf('redis', 'durable-object')),
  /**
   * limits of the policy `default`, which counts by token: `10/1s, 120/1m, 240/1h` (units `ms s m h d w`). With `POLICIES`
   * and without this, or with `off`, there is no `default`
   * @default `60/1m`
   * @deploy Limits of each caller, all of which hold at every moment, such as `10/1s, 120/1m, 240/1h`.
   */
  RATE_LIMITS: v.optional(v.union([v.literal('off'), limits], LIMITS_EXPECTED)),
  /**
   * more policies, [see below](#policies)
   * @example [{"name":"login","limits":"5/1m","by":"ip","match":"POST /login"},
   * {"name":"users","limits":"600/1m","by":"claim:sub"}]
   */
  POLICIES: v.optional(policyList),
  /**
   * a caller without what a policy counts by: `ip` counts by address, `deny` answers 401. Policies by `form:` or `json:`
   * have their own default
   * @deploy Callers without a token: `ip` counts them by address, `deny` answers 401.
   */
  ANONYMOUS: v.optional(oneOf('ip', 'deny'), 'ip'),
  /** leading bits of an IPv6 address that make one caller, 16 to 128 */
  IPV6_PREFIX: v.optional(integer(16, 128), 64),
  /** requests that pass without limits, e.g. `OPTIONS *, GET /healthz` */
  EXEMPT: v.optional(patternList),
  /**
   * what your API keeps as data in a path, some of `%2F %5C %25 %3F %23 ;`, e.g. `%2F ;`
   * ([why](identities.md#matching-paths))
   */
  LITERAL_IN_PATHS: v.optional(signs),
  /** `shadow`: decide and report, never refuse ([more](operations.md#trying-limits-out)) */
  MODE: v.optional(oneOf(...POLICY_MODES), 'enforce'),
  /** `on`: while the API is overloaded, refuse the less important requests first ([how](#shedding)) */
  SHEDDING: v.optional(onOrOff, 'off'),
  /**
   * which [response fields](http.md#rate-limit-headers) report the limits: `draft-11`, `draft-6`, `x-ratelimit` or `off`
   */
  RATELIMIT_HEADERS: v.optional(oneOf(...HEADER_FORMATS), 'draft-11'),
  /** deadline of a decision by the store */
  STORE_TIMEOUT_MS: v.optional(integer(1, 60_000), 500),
  /**
   * store away: `local` exact limits per isolate, `open` admit, `closed` answer 503
   * ([more](operations.md#store-outages))
   */
  ON_STORE_ERROR: v.optional(oneOf(...ON_STORE_ERROR), 'local'),
  /** part of each limit that an isolate allows by itself with `local`, above 0 and at most 1 */
  LOCAL_SHARE: v.optional(share, 1),
  /** `auto` or a number from 2 to 10000: permits taken in advance, the number at most ([more](how-it-works.md#leases)) */
  LEASES: v.optional(leases, 'off'),
  /**
   * key of the HMAC of identities, at least 16 characters; without it, plain SHA-256
   * @deploy Turns callers into keys that nobody can guess. Generate it with `openssl rand -base64 32`, and keep it: with
   * another one, all counts begin anew.
   */
  IDENTITY_SECRET: secret(textLike(IDENTITY_SECRET)),
  /**
   * where the keys are by which tokens are verified, for [claims](identities.md#claims): an `https` URL, in place of
   * `JWT_SECRET`
   * @example https://id.example.com/.well-known/jwks.json
   */
  JWKS_URL: v.optional(jwksUrl),
  /** a secret by which tokens are signed and verified (HS256, HS384, HS512), at least 32 characters, in place of `JWKS_URL` */
  JWT_SECRET: secret(
    matching(new RegExp(`^.{${MIN_SECRET_CHARACTERS},}$`, 's'), `at least ${MIN_SECRET_CHARACTERS} characters`),
  ),
  /**
   * what `iss` must be in such a token; anything if left out
   * @example https://id.example.com/
   */
  JWT_ISSUER: v.optional(jwtName),
  /**
   * what `aud` must be or hold in such a token; anything if left out
   * @example https://api.example.com
   */
  JWT_AUDIENCE: v.optional(jwtName),
  /** first part of every Redis key */
  KEY_PREFIX: v.optional(textLike(KEY_PREFIX), 'sluice'),
  /** `on`: blocks, allows, other limits and policies that change [without a deploy](rules.md) */
  RULES: v.optional(onOrOff, 'off'),
  /**
   * how long an isolate goes by the rules that it has read, 100 to 3600000; a change is in force everywhere within twice
   * that
   */
  RULES_REFRESH_MS: v.optional(integer(100, 3_600_000), 5_000),
  /** `on`: [count](observability.md#statistics) what happens to requests, by policy, outcome, pattern and minute */
  STATISTICS: v.optional(onOrOff, 'off'),
  /** share of the refusals that leave a line in the log, 0 to 1, e.g. `0.01` ([more](observability.md#log-lines)) */
  LOG_REFUSALS: v.optional(shareOrNone, 0),
  /**
   * `header:<name>` of a field, or `claim:<name>` of a verified token, by which people know a caller: shown beside the
   * digests of those refused most ([more](observability.md#most-refused-callers))
   * @example header:X-Account-Name
   */
  CALLER_LABEL: v.optional(label),
  /** with `STATISTICS`: at least 32 characters, with which a Prometheus [scrapes](observability.md#metrics) what is counted */
  METRICS_TOKEN: secret(longSecret),
  /**
   * at least 32 characters: turns on [what is for operators](admin.md), and lets in who knows it
   * @deploy Opens the dashboard at `/_sluice/`. Generate it with `openssl rand -base64 32`.
   */
  ADMIN_TOKEN: secret(longSecret),
  /**
   * the only host that serves operators
   * @example admin.example.com
   */
  ADMIN_HOST: v.optional(host),
}

type VariableName = keyof typeof variables

export const environment = v.object(variables)

/** The environment variables that Sluice reads, besides the bindings `UPSTREAM` and `ANALYTICS`. */
export const VARIABLES = Object.keys(variables) as readonly VariableName[]

export const SECRETS: ReadonlySet<string> = new Set(VARIABLES.filter((name) => secrets.has(variables[name])))

/** @param isHidden tests that a value at a path must not be shown */
export function toOptionError(
  { message, path, input }: v.BaseIssue<unknown>,
  isHidden = (where: readonly (string | number)[]) => SECRETS.has(`${where[0]}`),
): OptionError {
  const where = (path ?? []).map(({ key }) => key as string | number)
  // The input of an issue with a key may be the whole table.
  const value = path?.at(-1)?.value ?? input
  const shown = value !== undefined && isHidden(where) ? HIDDEN : value
  return new OptionError(where, message, shown, /^unknown /.test(message) ? 'UNKNOWN_OPTION' : undefined)
}

/**
 * Finds the variable that a name is probably meant to be: a letter or two away, or different only in plural, unit or
 * underscores.
 * @returns undefined for a known name, and for one of the operator's own
 */
export function meantVariable(name: string): VariableName | undefined {
  if (!/^[A-Z][A-Z\d_]+$/.test(name) || (VARIABLES as readonly string[]).includes(name)) return undefined
  if (RENAMED[name] !== undefined) return RENAMED[name] as VariableName
  const bare = stem(name)
  // Short names are a letter away from many: MODE from NODE, CODE and MODEL.
  return VARIABLES.find(
    (variable) => stem(variable).length > 5 && distance(bare, stem(variable)) <= (stem(variable).length < 12 ? 1 : 2),
  )
}

/** Makes POLICY equal POLICIES, and UPSTREAM_TIMEOUT equal UPSTREAM_TIMEOUT_MS. */
function stem(name: string): string {
  return name.replace(/_MS$/, '').replaceAll('_', '').replace(/IES$/, 'Y').replace(/S$/, '')
}

/** Counts the letters to insert, remove, change or swap with the next (optimal string alignment). */
export function distance(one: string, other: string): number {
  let before: number[] = []
  let last = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let i = 1; i <= one.length; i++) {
    const row = [i]
    for (let j = 1; j <= other.length; j++) {
      const isSwap = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]
      const changed = (last[j - 1] ?? 0) + Number(one[i - 1] !== other[j - 1])
      const moved = isSwap ? (before[j - 2] ?? 0) + 1 : changed
      row.push(Math.min(changed, moved, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1))
    }
    before = last
    last = row
  }
  return last[other.length] ?? 0
}
