import { expect, test } from 'vitest'
import { resolveExpiry } from '../../../src/rules/document.ts'

const NOW_MS = Date.parse('2026-11-22T10:00:00Z')

test.each([
  [{}, undefined],
  [{ for: '90m' }, '2026-11-22T11:30:00.000Z'],
  [{ until: '2026-12-24T00:00:00Z' }, '2026-12-24T00:00:00Z'],
  // Whether it is a moment, the document says.
  [{ until: 'soon' }, 'soon'],
])('resolveExpiry() reads %j', (lasts, until) => {
  expect(resolveExpiry(lasts, NOW_MS)).toEqual({ until })
})

test.each([
  [{ for: 'ever' }, 'for', /^a duration/],
  [{ for: '1h', until: '2026-12-24T00:00:00Z' }, 'for', /not both/],
  [{ until: '2026-11-22T10:00:00Z' }, 'until', /yet to come/],
])('resolveExpiry() refuses %j, and says which of them is wrong', (lasts, wrong, expected) => {
  expect(resolveExpiry(lasts, NOW_MS)).toEqual({ wrong, expected: expect.stringMatching(expected) })
})
