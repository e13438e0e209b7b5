import { IDENTITY_SECRET, OptionError, type TextRule } from '../config/option-error.ts'

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
  if (stray !== undefined) throw new OptionError(option, `only the names ${names.join(', ')}`, stray, 'UNKNOWN_OPTION')
}

/** @throws {OptionError} if the value is not a text of that kind */
export function checkText(option: string, value: unknown, { pattern, expected }: TextRule): void {
  if (typeof value !== 'string' || !pattern.test(value)) throw new OptionError(option, expected, value)
}

/** @throws {OptionError} if there is a secret that is too short to be one */
export function checkSecret(secret: unknown): void {
  if (secret === undefined || (typeof secret === 'string' && IDENTITY_SECRET.pattern.test(secret))) return
  throw new OptionError('secret', IDENTITY_SECRET.expected, 'a value not shown here')
}
