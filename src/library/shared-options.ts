import { OptionError } from './option-error.ts'

/** @throws {OptionError} if that cannot be the first part of a key */
export function checkPrefix(prefix: unknown): void {
  if (typeof prefix === 'string' && /^[\w.:-]{1,64}$/.test(prefix)) return
  throw new OptionError('prefix', 'up to 64 letters, digits, "_", ".", ":" or "-"', prefix)
}

/** @throws {OptionError} if there is a secret that is too short to be one */
export function checkSecret(secret: unknown): void {
  if (secret === undefined || (typeof secret === 'string' && secret.length >= 16)) return
  throw new OptionError('secret', 'at least 16 characters', 'a value not shown here')
}
