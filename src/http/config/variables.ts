/**
 * The variables of the Worker: the one place where a name, its default and its meaning stand. `npm run settings` writes
 * the comments below into docs/variables.md, wrangler.toml, .dev.vars.example and package.json.
 * `@default` stands for a default that the table does not have, `@example` for a value where the comment has no "e.g.",
 * and `@deploy` is what a deploy button asks.
 */

import { LIMITS_EXPECTED, parseLimits } from '../../core/model/limits.ts'
import { isSecret } from '../../core/options/option-error.ts'
import * as v from '../../core/options/readers.ts'
import { listNames } from '../../core/runtime/lists.ts'
import { MIN_SECRET_CHARACTERS } from '../request/identity/claims.ts'
import { HEADER_FORMATS } from '../response/rate-limit-headers.ts'
import { POLICY_LIST } from './policy-keys.ts'
import { STORE_KINDS } from './store-kinds.ts'
import * as values from './values.ts'

const KINDS = listNames(STORE_KINDS)

const ON_OR_OFF = v.mapped(v.oneOf('on', 'off'), (text) => text === 'on')
const JWT_NAME = v.matching(/^\S{1,1000}$/, 'up to 1000 characters without spaces')

/** The reader of each. */
export const variables = {
  /**
   * origin of your API, with its base path; or bind a service as `UPSTREAM`, which gets the request's own URL
   * @example https://api.example.com
   * @deploy Origin of the API behind the gateway, such as `https://origin.example.com`. Not the host of the gateway itself.
   */
  UPSTREAM_URL: values.HTTP_URL,
  /** time within which a request must be sent, and your API begin its response, else 504; at most an hour */
  UPSTREAM_TIMEOUT_MS: v.withDefault(values.integer(1, 3_600_000), 30_000),
  /**
   * at least 32 characters, sent to your API in the header `Sluice-Secret`, by which it
   * [recognizes the gateway](gateway.md#only-through-the-gateway)
   */
  UPSTREAM_SECRET: values.LONG_SECRET,
  /**
   * headers to forward although they [claim an address, a user or a URL](http.md#what-reaches-your-api),
   * e.g. `Cf-Access-Authenticated-User-Email`
   */
  FORWARD_HEADERS: values.HEADER_NAMES,
  /**
   * REST URL of the Redis database
   * @deploy REST URL of a Redis database at [Upstash](https://console.upstash.com): a regional one, near most of your
   * traffic, with eviction off.
   */
  UPSTASH_REDIS_REST_URL: values.REST_URL,
  /**
   * REST token of the Redis database
   * @deploy REST token of that database: the one that may write, not the read-only one.
   */
  UPSTASH_REDIS_REST_TOKEN: values.REST_TOKEN,
  /**
   * in place of these two: [several databases](growing.md#several-databases), a JSON list of tables with `name`, `url`,
   * `token` and, while moving, `state`: `joining` or `leaving`
   * @example [{"name":"a","url":"https://….upstash.io","token":"…"},{"name":"b","url":"https://….upstash.io","token":"…"}]
   */
  REDIS_SHARDS: v.ANYTHING,
  /**
   * where [counts live](stores.md): `redis`, `durable-object` or `memory`; by default Redis if its variables are set,
   * else Durable Objects
   * @default see right @example redis
   */
  STORE: v.oneOf(...KINDS),
  /**
   * `redis` or `durable-object`: a second store that receives every charge, [before it takes
   * over](operations.md#moving-to-another-store)
   * @example durable-object
   */
  STORE_MIRROR: v.oneOf(...KINDS.filter((kind) => STORE_KINDS[kind].canMirror)),
  /**
   * limits of the policy `default`, by token, e.g. `10/1s, 240/1h` (units `ms s m h d w`); `off`, or `POLICIES` without
   * this: no `default`
   * @default `60/1m`
   * @deploy Limits of each caller, all of which apply at every moment, such as `10/1s, 120/1m, 240/1h`.
   */
  RATE_LIMITS: v.parsed(LIMITS_EXPECTED, (text) => (text === 'off' || parseLimits(text) ? text : undefined)),
  /**
   * more [policies](policies.md)
   * @example [{"name":"login","limits":"5/1m","by":"ip","match":"POST /login"},
   * {"name":"users","limits":"600/1m","by":"claim:sub"}]
   */
  POLICIES: POLICY_LIST,
  /**
   * requests without the identity that is counted: `ip` counts them by address, `deny` answers 401; `form:` and
   * `json:` have [another default](identities.md#bodies)
   * @deploy Callers without a token: `ip` counts them by address, `deny` answers 401.
   */
  ANONYMOUS: v.withDefault(v.oneOf('ip', 'deny'), 'ip'),
  /** leading bits of an IPv6 address that identify a caller, 16 to 128 */
  IPV6_PREFIX: v.withDefault(values.integer(16, 128), 64),
  /** requests that no policy evaluates, e.g. `OPTIONS *, GET /healthz` */
  EXEMPT: values.PATTERN_LIST,
  /**
   * characters that your API keeps as data in a path, some of `%2F %5C %25 %3F %23 ;`, e.g. `%2F ;`
   * ([why](identities.md#matching-paths))
   */
  LITERAL_IN_PATHS: values.SIGNS,
  /**
   * `off`: your API looks for query parameters and cookies there alone; `on`: maybe
   * [elsewhere](identities.md#bodies), so an unreadable body makes them ambiguous
   */
  MERGED_PARAMETERS: v.withDefault(ON_OR_OFF, 'on'),
  /** `shadow` decides and reports, and never refuses ([more](operations.md#trying-limits-out)) */
  MODE: v.withDefault(v.MODE, 'enforce'),
  /** `on`: while your API is overloaded, refuse requests of lower priority ([how](policies.md#shedding)) */
  SHEDDING: v.withDefault(ON_OR_OFF, 'off'),
  /** origins whose pages [may read](http.md#browsers) refusals and limits, e.g. `https://app.example.com`; or `*` */
  CORS_ORIGINS: values.ORIGINS,
  /** `on`: callers see [what is left](http.md#what-is-left) at `/_sluice/limits` */
  SELF_SERVICE: v.withDefault(ON_OR_OFF, 'off'),
  /** `on`: [redirects](http.md#redirects-and-cookies) to your API's host lead to the gateway's */
  REWRITE_LOCATION: v.withDefault(ON_OR_OFF, 'off'),
  /**
   * format of the [response headers](http.md#rate-limit-headers) that report limits: `draft-11`, `draft-6`, `x-ratelimit`
   * or `off`
   */
  RATELIMIT_HEADERS: v.withDefault(v.oneOf(...listNames(HEADER_FORMATS)), 'draft-11'),
  /** deadline of a decision, in the store; at most 60,000 */
  STORE_TIMEOUT_MS: v.withDefault(values.inText(v.STORE_TIMEOUT_MS), 500),
  /**
   * while the store is unavailable: `local` enforces limits per isolate, `open` admits, `closed` answers 503
   * ([more](operations.md#store-outages))
   */
  ON_STORE_ERROR: v.withDefault(v.STORE_ERROR_FALLBACK, 'local'),
  /** share of each limit that an isolate then allows with `local`, above 0 and at most 1 */
  LOCAL_SHARE: v.withDefault(values.SHARE_IN_TEXT, 1),
  /** permits taken in advance: `auto`, or the maximum, 2 to 10000 ([more](how-it-works.md#leases)) */
  LEASES: v.withDefault(values.inText(v.LEASES), 'off'),
  /**
   * key of the HMAC of identities, at least 16 characters; without it, plain SHA-256
   * @deploy Makes the keys of callers unguessable. Generate it with `openssl rand -base64 32`, and keep it: with another
   * one, all counts start over.
   */
  IDENTITY_SECRET: v.IDENTITY_SECRET,
  /**
   * `https` URL of the keys that verify JSON Web Tokens, for [claims](identities.md#claims); or use `JWT_SECRET`
   * @example https://id.example.com/.well-known/jwks.json
   */
  JWKS_URL: values.KEYS_URL,
  /** secret that signs and verifies JSON Web Tokens (HS256, HS384, HS512), at least 32 characters */
  JWT_SECRET: v.matching(
    new RegExp(`^.{${MIN_SECRET_CHARACTERS},}$`, 's'),
    `at least ${MIN_SECRET_CHARACTERS} characters`,
  ),
  /**
   * required value of `iss`; any if not set
   * @example https://id.example.com/
   */
  JWT_ISSUER: JWT_NAME,
  /**
   * required value of `aud`, or one of its values; any if not set
   * @example https://api.example.com
   */
  JWT_AUDIENCE: JWT_NAME,
  /** first part of every key */
  KEY_PREFIX: v.withDefault(v.KEY_PREFIX, 'sluice'),
  /** `on`: blocks, allows, overrides and policies that change [without a deploy](rules.md) */
  RULES: v.withDefault(ON_OR_OFF, 'off'),
  /**
   * how often an isolate reads the rules, 100 to 3600000; a change is active everywhere within twice that
   */
  RULES_REFRESH_MS: v.withDefault(values.integer(100, 3_600_000), 5_000),
  /**
   * `on`: [count](observability.md#statistics) requests by policy, outcome, pattern and minute, and keep the last
   * refusals; `counts`: without these
   */
  STATISTICS: v.withDefault(v.oneOf('on', 'counts', 'off'), 'off'),
  /** share of refusals to log, 0 to 1, e.g. `0.01` ([more](observability.md#log-lines)) */
  LOG_REFUSALS: v.withDefault(values.SHARE_OR_NONE, 0),
  /**
   * `header:<name>` or `claim:<name>` with the name of a caller, shown with the digests of the most refused callers
   * ([more](observability.md#most-refused-callers))
   * @example header:X-Account-Name
   */
  CALLER_LABEL: values.LABEL,
  /** with `STATISTICS`: at least 32 characters, with which Prometheus [scrapes metrics](observability.md#metrics) */
  METRICS_TOKEN: values.LONG_SECRET,
  /**
   * at least 32 characters: turns on the [dashboard and the admin API](admin.md), and opens them
   * @deploy Opens the dashboard at `/_sluice/`. Generate it with `openssl rand -base64 32`.
   */
  ADMIN_TOKEN: values.LONG_SECRET,
  /**
   * the only host that serves dashboard and admin API
   * @example admin.example.com
   */
  ADMIN_HOST: values.HOST,
  /** at least 32 characters, with which programs and proxies [ask for decisions](serve.md) */
  DECIDE_TOKEN: values.LONG_SECRET,
} as const

export type VariableName = keyof typeof variables

/** The environment variables that Sluice reads, besides the bindings `UPSTREAM`, `LIMITS` and `ANALYTICS`. */
export const VARIABLES = listNames(variables)

/** Reads the variables, in their order. @throws {OptionError} on the first that is wrong */
export function readVariables(env: Readonly<Record<string, unknown>>): v.Values<typeof variables> {
  return v.readValues(variables, env)
}

export const SECRETS: ReadonlySet<string> = new Set(VARIABLES.filter(isSecret))

/**
 * Finds the variable that a name is probably meant to be: a letter or two away, or different only in plural, unit or
 * underscores.
 * @returns undefined for a known name, and for one of the operator's own
 */
export function findMeantVariable(name: string): VariableName | undefined {
  if ((VARIABLES as readonly string[]).includes(name) || !/^[A-Z][A-Z\d_]+$/.test(name)) return undefined
  const bare = reduceName(name)
  reducedVariables ??= VARIABLES.map((variable) => ({ variable, reduced: reduceName(variable) }))
  // Short names are a letter away from many: MODE from NODE, CODE and MODEL.
  return reducedVariables.find(({ reduced }) => {
    const max = reduced.length < 12 ? 1 : 2
    return reduced.length > 5 && countEdits(bare, reduced, max) <= max
  })?.variable
}

/** Made for the first name that is not known: most Workers have none. */
let reducedVariables: readonly { readonly variable: VariableName; readonly reduced: string }[] | undefined

/** Makes POLICY equal POLICIES, and UPSTREAM_TIMEOUT equal UPSTREAM_TIMEOUT_MS. */
function reduceName(name: string): string {
  return name.replace(/_MS$/, '').replaceAll('_', '').replace(/IES$/, 'Y').replace(/S$/, '')
}

/**
 * Counts the letters to insert, remove, change or swap with the next (optimal string alignment).
 * @param max it stops counting above it
 */
export function countEdits(one: string, other: string, max = Number.POSITIVE_INFINITY): number {
  const difference = Math.abs(one.length - other.length)
  if (difference > max) return difference
  let before: number[] = []
  let last = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let i = 1; i <= one.length; i++) {
    const row = [i]
    let fewest = i
    for (let j = 1; j <= other.length; j++) {
      const isSwap = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]
      const changed = (last[j - 1] ?? 0) + Number(one[i - 1] !== other[j - 1])
      const moved = isSwap ? (before[j - 2] ?? 0) + 1 : changed
      const edits = Math.min(changed, moved, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1)
      fewest = Math.min(fewest, edits)
      row.push(edits)
    }
    // No later row has fewer than this one.
    if (fewest > max) return fewest
    before = last
    last = row
  }
  return last[other.length] ?? 0
}
