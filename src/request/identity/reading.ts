import type { Reading } from '../../model/policy.ts'

export const NONE = { kind: 'none' } as const satisfies Reading
export const SPOILT = { kind: 'spoilt' } as const satisfies Reading

/** As long a field as nginx and Apache take. A longer text is not read. */
export const MAX_CHARACTERS = 8_190

/**
 * Text that occurs once. What some APIs trim is trimmed, and what they might cut it off at spoils it, as does what is no
 * UTF-8, which has been replaced by U+FFFD.
 */
export function readText(text: string): Reading {
  if (text.length > MAX_CHARACTERS) return SPOILT
  const value = text.trim()
  if (value === '') return NONE
  return /[\p{Cc}\ufffd]/u.test(value) ? SPOILT : { kind: 'value', value }
}
