/** What a request says of one thing that callers are told apart by. */
export type Reading =
  | { readonly kind: 'value'; readonly value: string }
  | { readonly kind: 'none' }
  /** There, but APIs may differ about what it says. Who spoils what would identify him must not leave a policy by it. */
  | { readonly kind: 'spoilt' }

export const NONE: Reading = { kind: 'none' }
export const SPOILT: Reading = { kind: 'spoilt' }

/** A field as long as nginx and Apache take. A longer text is not read. */
export const MAX_CHARACTERS = 8_190

/** Text that is there once. What some APIs trim is trimmed, and what they might cut it off at spoils it. */
export function readText(text: string): Reading {
  if (text.length > MAX_CHARACTERS) return SPOILT
  const value = text.trim()
  if (value === '') return NONE
  return /\p{Cc}/u.test(value) ? SPOILT : { kind: 'value', value }
}
