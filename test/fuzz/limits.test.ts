import fc from 'fast-check'
import { expect } from 'vitest'
import { formatWindow, parseDuration, parseLimits } from '../../src/core/model/limits.ts'
import { fuzz } from './fuzz.ts'
import { readText } from './strings.ts'

const MOST_WINDOW_MS = 53 * 7 * 24 * 3_600_000
const MOST_LIMIT = 4_294_967_295
const windowMs = fc.oneof(
  fc.integer({ min: 1, max: MOST_WINDOW_MS }),
  fc.integer({ min: 1, max: 500 }).chain((count) => fc.constantFrom(1_000, 60_000, 3_600_000).map((ms) => count * ms)),
)
const limits = fc.uniqueArray(fc.record({ limit: fc.integer({ min: 1, max: MOST_LIMIT }), windowMs }), {
  minLength: 1,
  maxLength: 5,
  selector: ({ windowMs }) => windowMs,
})
const space = fc.constantFrom('', ' ', '\t', '  ')

fuzz(
  'parseLimits() reads back any limits, however they are spaced and ordered',
  250,
  fc.property(limits, space, space, (limits, before, after) => {
    const text = limits.map(({ limit, windowMs }) => `${before}${limit}/${formatWindow(windowMs)}${after}`).join(',')
    expect(parseLimits(text)).toEqual(limits.toSorted((a, b) => a.windowMs - b.windowMs))
  }),
)

fuzz(
  'parseLimits() answers undefined, or limits within their bounds, to any text',
  250,
  fc.property(
    readText('1', '0', '999', '/', '/', ',', ' ', 's', 'm', 'ms', '10/1s', '-', '+', '.', 'e9', '٣'),
    (text) => {
      const limits = parseLimits(text)
      if (limits === undefined) return
      expect(limits).toHaveLength(text.split(',').length)
      expect(new Set(limits.map(({ windowMs }) => windowMs)).size).toBe(limits.length)
      for (const { limit, windowMs } of limits) {
        expect([Number.isInteger(limit), Number.isInteger(windowMs)]).toEqual([true, true])
        expect(Math.min(limit, windowMs)).toBeGreaterThanOrEqual(1)
        expect(limit).toBeLessThanOrEqual(MOST_LIMIT)
        expect(windowMs).toBeLessThanOrEqual(MOST_WINDOW_MS)
      }
    },
  ),
)

fuzz(
  'parseDuration() answers undefined, or milliseconds within their bounds, to any text',
  200,
  fc.property(readText('1', '0', '42', 'ms', 's', 'm', 'h', 'd', 'w', ' ', '.5', '-', 'e3'), (text) => {
    const durationMs = parseDuration(text)
    if (durationMs === undefined) return
    expect(text).toMatch(/^\d+[a-z]+$/)
    expect(Number.isInteger(durationMs)).toBe(true)
    expect(durationMs).toBeGreaterThanOrEqual(1)
    expect(durationMs).toBeLessThanOrEqual(MOST_WINDOW_MS)
  }),
)
