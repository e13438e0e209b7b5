import fc from 'fast-check'
import { expect, test } from 'vitest'
import { explainLimits, formatWindow, parseLimits } from '../../src/core/model/limits.ts'

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const
const UNITS = Object.keys(UNIT_MS) as (keyof typeof UNIT_MS)[]
const MAX_WINDOW_MS = 53 * UNIT_MS.w

test.each([
  ['1/60s', { limit: 1, windowMs: 60_000 }],
  ['2/2000ms', { limit: 2, windowMs: 2_000 }],
  ['3/48h', { limit: 3, windowMs: 172_800_000 }],
])('parseLimits() reads %s, though there is a larger unit', (text, limit) => {
  expect(parseLimits(text)).toEqual([limit])
})

test.each([
  ...['', ' ', ',', '60', '60/', '/1m', '60/m', '60/1', '60/1m,', ',60/1m', '60/1m;60/1h', '60/1m 60/1h'],
  ...['60 / 1m', '60/1 m', '60/1M', '60/1min', '60/1y', '-1/1m', '+1/1m', '1.5/1m', '1e3/1m', '0x1/1m', '٣/1m'],
  ...['0/1m', '4294967296/1m', '60/0s', '60/54w', '60/99999999999w', '60/1.5s'],
  // The same window twice: which limit holds?
  ...['60/1m, 60/1m', '60/1m, 30/60s', '1/1w, 2/7d'],
])('parseLimits() refuses "%s"', (text) => {
  expect(parseLimits(text)).toBeUndefined()
})

test.each([
  [1, '1ms'],
  [999, '999ms'],
  [1_000, '1s'],
  [1_500, '1500ms'],
  [60_000, '1m'],
  [90_000, '90s'],
  [3_600_000, '1h'],
  [86_400_000, '1d'],
  [604_800_000, '1w'],
  [1_209_600_000, '2w'],
  [864_000_000, '10d'],
])('formatWindow() writes %d ms as %s', (windowMs, text) => {
  expect(formatWindow(windowMs)).toBe(text)
})

test('formatWindow() uses the largest unit of which the window is a whole number', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: MAX_WINDOW_MS }), (windowMs) => {
      const unit = formatWindow(windowMs).replace(/^\d+/, '') as keyof typeof UNIT_MS
      const larger = UNITS.slice(UNITS.indexOf(unit) + 1)
      expect(larger.filter((name) => windowMs % UNIT_MS[name] === 0)).toEqual([])
    }),
  )
})

test.each([
  ['10', '"10" lacks a window'],
  ['1\n2', '"1\\n2" lacks a window'],
  ['10/1s, 5', '"5" lacks a window'],
  ['10/1s, 5/1sec', '"1sec" is no duration from 1ms to 53w such as "30s" (units ms s m h d w)'],
  ['10/1s; 5/1m', '"1s; 5/1m" is no duration from 1ms to 53w such as "30s" (units ms s m h d w)'],
  ['0/1s', '"0" is no limit from 1 to 4294967295'],
  ['ten/1s', '"ten" is no limit from 1 to 4294967295'],
  ['5/1s, 7/1s', 'each window once; day, week, month and year with "quota"'],
  ['5/day', 'each window once; day, week, month and year with "quota"'],
])('explainLimits() says of %j: %s', (text, expected) => {
  expect(parseLimits(text)).toBeUndefined()
  expect(explainLimits(text)).toBe(expected)
})
