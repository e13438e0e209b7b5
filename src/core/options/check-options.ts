/** Checks options of code, which JavaScript does not check by their types. */
import { describeUnknown, OptionError, parseKeys, type TextRule } from './option-error.ts'

/** Throws `OptionError` for a wrong value. */
export type Check = (option: string, value: unknown) => void

/**
 * Checks options by a table.
 * @param checks the check of each option; it is skipped if the option is undefined
 * @param prefix precedes the name of an option in errors
 * @throws {OptionError} if one is wrong, or has another name, e.g. a misspelt one
 */
export function checkOptions(
  name: string,
  options: object,
  checks: Readonly<Record<string, Check>>,
  prefix = '',
): void {
  checkNames(name, options, Object.keys(checks))
  for (const [option, value] of Object.entries(options)) {
    if (value !== undefined) checks[option]?.(`${prefix}${option}`, value)
  }
}

export function checkFunction(option: string, value: unknown): void {
  if (typeof value !== 'function') throw new OptionError(option, 'a function', value)
}

/** Calls it once: by a clock that is no number, every request would be the first. */
export function checkNow(option: string, now: unknown): void {
  checkFunction(option, now)
  const nowMs: unknown = (now as () => unknown)()
  if (!Number.isFinite(nowMs)) throw new OptionError(option, 'a clock that returns milliseconds', nowMs)
}

export function checkSignal(option: string, value: unknown): void {
  if (value !== undefined) checkMethods(option, value, ['addEventListener'], 'an AbortSignal')
}

export function checkString(option: string, value: unknown, expected = 'a string'): void {
  if (typeof value !== 'string') throw new OptionError(option, expected, value)
}

export function checkOneOf(option: string, value: unknown, values: readonly unknown[]): void {
  if (!values.includes(value)) {
    throw new OptionError(option, values.map((one) => JSON.stringify(one)).join(' or '), value)
  }
}

export function checkInteger(option: string, value: unknown, min: number, max: number): void {
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return
  throw new OptionError(option, `an integer from ${min} to ${max}`, value)
}

export function checkNames(option: string, value: unknown, names: readonly string[]): void {
  if (typeof value !== 'object' || value === null) throw new OptionError(option, 'an object', value)
  const stray = Object.keys(value).find((key) => !names.includes(key))
  if (stray === undefined) return
  const expected = describeUnknown('option', names, stray)
  throw new OptionError([...parseKeys(option), stray], expected, stray, 'UNKNOWN_OPTION')
}

export function checkText(option: string, value: unknown, { pattern, expected }: TextRule): void {
  if (typeof value !== 'string' || !pattern.test(value)) throw new OptionError(option, expected, value)
}

/** Checks that an object has these functions. */
export function checkMethods(option: string, value: unknown, names: readonly string[], expected: string): void {
  const methods = Object(value)
  if (names.some((name) => typeof methods[name] !== 'function')) throw new OptionError(option, expected, typeof value)
}

/** Reads the one option of stores that are called. @param store precedes it in errors @throws {OptionError} */
export function readTimeoutMs(store: string, options: { readonly timeoutMs?: number | undefined }): number {
  checkNames(store, options, ['timeoutMs'])
  const { timeoutMs = 500 } = options
  checkInteger(`${store}.timeoutMs`, timeoutMs, 1, 60_000)
  return timeoutMs
}
