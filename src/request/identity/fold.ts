import type { IdentitySource, Reading } from '../../model/policy.ts'
import { NONE } from './reading.ts'
import { isFoldable } from './source.ts'

/**
 * The one spelling of what people type.
 * @param fold `lower`, `trim` or both. Letters that Unicode keeps for older encodings (NFKC), such as those of full width,
 * are always the plain ones
 */
export function foldValue(value: string, fold: string): string {
  let text = value.normalize('NFKC')
  if (fold.includes('lower')) {
    // Some letters are one only in upper case: "ß" and "ss", "ς" and "σ"; a dot on a small "i" is none.
    text = text.toLowerCase().toUpperCase().toLowerCase().normalize('NFKC').replaceAll('i\u0307', 'i')
  }
  return fold.includes('trim') ? text.trim() : text
}

/** The same for what a source says, if it is something that people type. */
export function foldReading(source: IdentitySource, value: string, fold: string): Reading {
  if (!isFoldable(source)) return { kind: 'value', value }
  // Claims are read as JSON.
  const said: unknown = source.kind === 'claim' ? JSON.parse(value) : value
  if (typeof said !== 'string') return { kind: 'value', value }
  const folded = foldValue(said, fold)
  if (folded === '') return NONE
  return { kind: 'value', value: source.kind === 'claim' ? JSON.stringify(folded) : folded }
}
