/** Makes spellings of a value alike. */
import { type IdentitySource, isFoldable, type Reading } from '../../../core/model/identity-source.ts'
import { NONE } from './reading.ts'

/** Letters with strokes, which Unicode does not take apart and databases take for plain ones. */
const STROKES: ReadonlyMap<string, string> = new Map(
  [...'đðħłøĐÐĦŁØ'].map((letter, at) => [letter, 'ddhloDDHLO'.charAt(at)]),
)

/**
 * Makes letters that Unicode has for older encodings plain (NFKC).
 * @param fold words of `lower`, `trim`, `accents` and `numbers`
 */
export function foldValue(value: string, fold: string): string {
  let text = value.normalize('NFKC')
  if (fold.includes('lower')) {
    // Some letters are equal only in upper case: "ß" and "ss", "ς" and "σ"; a dot on a small "i" is none.
    text = text.toLowerCase().toUpperCase().toLowerCase().normalize('NFKC').replaceAll('i\u0307', 'i')
  }
  if (fold.includes('accents')) text = foldAccents(text)
  if (fold.includes('trim')) text = text.trim()
  return fold.includes('numbers') ? readLeadingNumber(text) : text
}

/** Keeps of each letter what databases compare that ignore accents: MySQL's and MariaDB's, by default. */
function foldAccents(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/[\p{M}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, '')
    .replace(/[đðħłø]/gi, (letter) => STROKES.get(letter) ?? letter)
    .replace(/[^\P{Nd}\d]/gu, toDigit)
    .normalize('NFKC')
}

/** Digits of a script stand together, and begin where the last digit of the code is 0 or 6. */
function toDigit(character: string): string {
  const code = character.codePointAt(0) ?? 0
  const isWholeRow = /\p{Nd}/u.test(String.fromCodePoint(code & ~15))
  return String((code & 15) - (isWholeRow ? 0 : 6))
}

/** Reads the number with which a text begins, as PHP and MySQL do where they compare it with a number, without a fraction. */
function readLeadingNumber(text: string): string {
  const [number = '0'] = /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?/i.exec(text) ?? []
  // Adding 0 makes 0 of -0.
  return String(Math.trunc(Number(number)) + 0)
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
