import { SECRETS } from './variables.ts'

/** Stands for a secret where a value would be shown. */
export const HIDDEN = Symbol('hidden')

/** A wrong configuration. Its message is one line: the variable, what was expected and the value, unless secret. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly variable: string
  /** Keys and indexes below the variable, in order. */
  readonly path: readonly (string | number)[]
  readonly #expected: string
  readonly #value: unknown

  constructor(variable: string, expected: string, value: unknown, path: readonly (string | number)[] = []) {
    const where = path.map((key) => (typeof key === 'number' ? `[${key}]` : `.${key}`)).join('')
    super(`${variable}${where}: expected ${expected}, got ${show(variable, value)}`)
    this.variable = variable
    this.path = path
    this.#expected = expected
    this.#value = value
  }

  /** The same error, of what stands at another place. */
  at(variable: string, before: readonly (string | number)[]): ConfigError {
    return new ConfigError(variable, this.#expected, this.#value, [...before, ...this.path])
  }
}

function show(variable: string, value: unknown): string {
  if (value === undefined) return 'nothing'
  const text = JSON.stringify(value) ?? typeof value
  // A URL may carry credentials before an @ or in its query.
  const isHidden =
    value === HIDDEN || SECRETS.has(variable) || (/^(?:UPSTREAM_URL|JWKS_URL|jwt)$/.test(variable) && /[@?]/.test(text))
  if (isHidden) return 'a value not shown here'
  return text.length > 100 ? `${text.slice(0, 100)}…` : text
}
