/** Errors in options: each says where the mistake is, what was expected and what was found. */

import { explainLimits, LIMITS_EXPECTED } from '../model/limits.ts'

/** Options that users of other limiters write by habit, each with what stands for it here. */
const HABITUAL: readonly (readonly [names: RegExp, here: string, option: string])[] = [
  [/^(?:windowMs|max|limit|points|duration|interval|timeWindow|ttl|limiter)$/, 'limits, e.g. "100/1m"', 'limits'],
  [/^(?:keyGenerator|getTracker)$/, 'identify, or by', 'identify'],
  [/^(?:handler|message|errorResponseBuilder)$/, 'onLimited', 'onLimited'],
  [/^(?:standardHeaders|legacyHeaders)$/, 'rateLimitHeaders', 'rateLimitHeaders'],
  [/^(?:redis|storeClient|client)$/, 'store: redisStore(client)', 'store'],
  [/^prefix$/, 'keyPrefix', 'keyPrefix'],
  [/^(?:counts|failures|burst|penalty|match|fold|actual_cost|untold)$/, 'policies, whose option it is', 'policies'],
]

/** Describes an unknown name by those that are known. */
export function describeUnknown(noun: string, known: readonly string[], name = ''): string {
  const [, here] = HABITUAL.find(([names, , option]) => names.test(name) && known.includes(option)) ?? []
  return `unknown ${noun}${here ? `; see ${here}` : ''}; expected one of ${known.join(', ')}`
}

export const HIDDEN = Symbol('hidden')

/**
 * No message may show these: they are secrets, or a secret is easily put there by mistake. All of `jwt` that is not known
 * to be public is one.
 */
const SECRET =
  /^(?:[A-Z_]+_(?:SECRET|TOKEN)|(?:UPSTASH|REDIS)_.*|identitySecret|jwt(?!\.(?:jwksUrl|issuer|audience)$).*)$/

/** @param option the name of a variable, or of an option and the keys below it */
export function isSecret(option: string): boolean {
  return SECRET.test(option)
}

export type OptionErrorCode =
  | 'INVALID_OPTION'
  | 'MISSING_OPTION'
  | 'UNKNOWN_OPTION'
  | 'UNKNOWN_VARIABLE'
  /** `take` was called on a limiter whose slots are taken by `hold`. */
  | 'NEEDS_HOLD'
  /** A call costs more than any may. */
  | 'COST_TOO_HIGH'

/** A wrong variable, option or argument. Its message is one line, and shows no value that may be secret. */
export class OptionError extends TypeError {
  override readonly name = 'OptionError'
  /** The same as long as the mistake is of the same kind, even if the message changes. */
  readonly code: OptionErrorCode
  /** Where it stands, such as `policies[0].limits`. */
  readonly option: string
  /** The variable or option that it stands in. */
  readonly variable: string
  /** Keys and indexes below that, in order. */
  readonly path: readonly (string | number)[]
  readonly #expected: string
  readonly #value: unknown

  /** @param where the option, or a list of it and of the keys and indexes below it */
  constructor(where: string | readonly (string | number)[], expected: string, value: unknown, code?: OptionErrorCode) {
    const [variable = '', ...path] = typeof where === 'string' ? parseKeys(where) : where
    const option = `${variable}${path.map((key) => (typeof key === 'number' ? `[${key}]` : `.${key}`)).join('')}`
    const why = expected === LIMITS_EXPECTED && typeof value === 'string' ? `: ${explainLimits(value)}` : ''
    super(
      `${option}: ${/^unknown /.test(expected) ? expected : `expected ${expected}, got ${show(option, value)}${why}`}`,
    )
    this.code = code ?? (value === undefined ? 'MISSING_OPTION' : 'INVALID_OPTION')
    this.option = option
    this.variable = `${variable}`
    this.path = path
    this.#expected = expected
    this.#value = value
  }

  /** The same mistake, in an option that stands for this one. */
  relocate(where: readonly (string | number)[]): OptionError {
    return new OptionError([...where, ...this.path], this.#expected, this.#value, this.code)
  }
}

export function parseKeys(text: string): readonly (string | number)[] {
  return text.split(/[.[\]]+/).flatMap((key) => (/^\d+$/.test(key) ? Number(key) : key || []))
}

function show(option: string, value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === HIDDEN || isSecret(option)) return 'a value not shown here'
  if (typeof value === 'function' || typeof value === 'symbol') return `a ${typeof value}`
  const text = typeof value === 'number' || typeof value === 'bigint' ? String(value) : formatJson(value)
  // A URL may carry credentials before an @ or in its query.
  if (/^(?:UPSTREAM_URL|JWKS_URL|jwt\.\w+)$/.test(option) && /[@?]/.test(text)) return 'a value not shown here'
  return text.length > 100 ? `${text.slice(0, 100)}…` : text
}

function formatJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? typeof value
  } catch {
    return `a ${typeof value}`
  }
}
