import { expect, test } from 'vitest'
import type { IdentitySource } from '../../src/core/model/identity-source.ts'
import { foldReading, foldValue } from '../../src/http/request/identity/fold.ts'

test.each<[fold: string, value: string, folded: string]>([
  // Compatible forms are alike, whatever else is.
  ['trim', 'ﬁＸ²', 'fiX2'],
  ['lower', 'aBC', 'abc'],
  ['lower', 'ẞßSS', 'ssssss'],
  ['lower', 'ΣΟΣ', 'σος'],
  ['lower', 'σοσ', 'σος'],
  ['lower', 'ς', 'σ'],
  ['lower', 'İI', 'ii'],
  ['lower', 'ſ', 's'],
  ['lower', ' A ', ' a '],
  ['lower', 'Ⅻ', 'xii'],
  ['lower', 'é', 'é'],
  ['trim', ' A b\u3000', 'A b'],
  ['trim', 'é', 'é'],
  ['accents', 'Éa\u0301b', 'Eab'],
  ['accents', 'đðħłøĐÐĦŁØ', 'ddhloDDHLO'],
  ['accents', 'a\u200db\u00adc\u034f', 'abc'],
  ['accents', 'ａ１', 'a1'],
  // Arabic, Devanagari, mathematical and Tamil digits; rows may begin at 0 or at 6 of sixteen.
  ['accents', '٠١٩', '019'],
  ['accents', '۰۵۹', '059'],
  ['accents', '०९', '09'],
  ['accents', '௦௧௯', '019'],
  ['accents', '𑁦𑁯', '09'],
  ['accents', '0189', '0189'],
  ['accents', ' 가 ', ' 가 '],
  ['lower+trim', ' A ', 'a'],
  ['lower+accents', 'ÉØ', 'eo'],
  ['trim+accents', ' \u200dx', 'x'],
  ['numbers', '7', '7'],
  ['numbers', ' \t+007.9x', '7'],
  ['numbers', '-3', '-3'],
  ['numbers', '-0.5', '0'],
  ['numbers', '.9e1', '9'],
  ['numbers', '1.e2', '100'],
  ['numbers', '12e+2z', '1200'],
  ['numbers', '1234e-2', '12'],
  ['numbers', '3e', '3'],
  ['numbers', '12.5.5', '12'],
  ['numbers', '1E3', '1000'],
  ['numbers', 'x7', '0'],
  ['numbers', '.', '0'],
  ['numbers', '', '0'],
  ['accents+numbers', '٧x', '7'],
])('foldValue() by "%s" makes of %j %j', (fold, value, folded) => expect(foldValue(value, fold)).toBe(folded))

const HEADER = { kind: 'header', name: 'x-key' } as const satisfies IdentitySource
const CLAIM = { kind: 'claim', name: 'sub', path: ['sub'] } as const satisfies IdentitySource

test.each<[source: IdentitySource, value: string, folded: string | undefined]>([
  [HEADER, ' A"', 'a"'],
  [HEADER, '"A"', '"a"'],
  [HEADER, '\u200d', undefined],
  [CLAIM, '" A\\""', '"a\\""'],
  [CLAIM, '" "', undefined],
  [CLAIM, '70', '70'],
  [CLAIM, 'true', 'true'],
  [{ kind: 'token' }, ' A', ' A'],
  [{ kind: 'ip' }, ' A', ' A'],
])('foldReading() of %j makes of %j %j', (source, value, folded) => {
  const reading = folded === undefined ? { kind: 'none' } : { kind: 'value', value: folded }
  expect(foldReading(source, value, 'lower+trim+accents')).toEqual(reading)
})
