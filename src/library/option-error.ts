/** A wrong option or argument. Its message is one line: the name, what was expected and the value. */
export class OptionError extends TypeError {
  override readonly name = 'OptionError'
  /** The option, as a path such as `policies[0].limits`. */
  readonly option: string

  constructor(option: string, expected: string, value: unknown) {
    super(`${option}: expected ${expected}, got ${show(value)}`)
    this.option = option
  }
}

function show(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (typeof value === 'function' || typeof value === 'symbol') return `a ${typeof value}`
  const text = typeof value === 'number' || typeof value === 'bigint' ? String(value) : toJson(value)
  return text.length > 100 ? `${text.slice(0, 100)}…` : text
}

function toJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? typeof value
  } catch {
    return `a ${typeof value}`
  }
}

/** @throws {OptionError} if there is a value that is not a function */
export function checkFunction(option: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function') throw new OptionError(option, 'a function', value)
}

/** @throws {OptionError} if the value is none of these */
export function checkOneOf(option: string, value: unknown, options: readonly unknown[]): void {
  if (options.includes(value)) return
  const shown = options.filter((one) => one !== undefined).map((one) => JSON.stringify(one))
  throw new OptionError(option, shown.join(' or '), value)
}

/** @throws {OptionError} if the value is not an integer within these bounds */
export function checkInteger(option: string, value: unknown, min: number, max: number): number {
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return value as number
  throw new OptionError(option, `an integer from ${min} to ${max}`, value)
}

/** @throws {OptionError} if an object has another key than these, e.g. a misspelt one */
export function checkNames(option: string, value: unknown, names: readonly string[]): void {
  if (typeof value !== 'object' || value === null) throw new OptionError(option, 'an object', value)
  const stray = Object.keys(value).find((key) => !names.includes(key))
  if (stray !== undefined) throw new OptionError(option, `only the names ${names.join(', ')}`, stray)
}
