import { expect, test } from 'vitest'
import { readRetryAfter } from '../../../src/outbound/server-limit.ts'

const NOW_MS = Date.parse('2026-11-22T12:00:00.250Z')

function read(text: string, date?: string) {
  return readRetryAfter(new Headers({ 'Retry-After': text, ...(date && { Date: date }) }), NOW_MS)
}

test.each([
  ['0', 0],
  ['120', 120_000],
  [' 7 ', 7_000],
  ['Sun, 22 Nov 2026 12:00:10 GMT', 9_750],
  ['Sunday, 22-Nov-26 12:00:10 GMT', 9_750],
  ['Sun Nov 22 12:00:10 2026', 9_750],
  ['Sun, 22 Nov 2026 11:59:00 GMT', 0],
])('Retry-After: %s', (text, ms) => {
  expect(read(text)).toBe(ms)
})

test('a date is compared with the Date of the response', () => {
  expect(read('Tue, 14 Nov 2023 22:13:30 GMT', 'Tue, 14 Nov 2023 22:13:20 GMT')).toBe(10_000)
})

test.each(['', 'soon', '-1', '1.5', '1e3', '2026-11-22T12:00:10Z', 'Sun, 99 Nov 2026 12:00:10 GMT', '9'.repeat(20)])(
  'what is neither a number of seconds nor a date is ignored: %j',
  (text) => {
    expect(read(text)).toBeUndefined()
  },
)

test('a response without Retry-After asks for no wait', () => {
  expect(readRetryAfter(new Headers(), NOW_MS)).toBeUndefined()
})
