/** Makes spellings of a value alike. */
import { type IdentitySource, isFoldable, type Reading } from '../../../core/model/identity-source.ts'
import { NONE } from './reading.ts'

/** Makes letters that Unicode has for older encodings plain (NFKC). @param fold `lower`, `trim` or both */
export function foldValue(value: string, fold: string): string {
  let text = value.normalize('NFKC')
  if (fold.includes('lower')) {
    // Some letters are equal only in upper case: "ß" and "ss", "ς" and "σ"; a dot on a small "i" is none.
    text = text.toLowerCase().toUpperCase().toLowerCase().normalize('NFKC').replaceAll('i\u0307', 'i')
  }
  return fold.includes('trim') ? text.trim() : text
}

export function foldReading(source: IdentitySource, value: string, fold: string): Reading {
  if (!isFoldable(source)) return { kind: 'value', value }
  // Claims are read as JSON.
  const text: unknown = source.kind === 'claim' ? JSON.parse(value) : value
  if (typeof text !== 'string') return { kind: 'value', value }
  const folded = foldValue(text, fold)
  if (folded === '') return NONE
  return { kind: 'value', value: source.kind === 'claim' ? JSON.stringify(folded) : folded }
}
