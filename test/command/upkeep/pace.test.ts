import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LONGEST_SCRIPT_US, MOST_KEYS, Pace } from '../../../src/command/upkeep/pace.ts'

test('Pace makes batches that take half a millisecond, whatever a key takes', () => {
  fc.assert(
    fc.property(fc.double({ min: 0.6, max: 45, noNaN: true }), (usPerKey) => {
      const pace = new Pace()
      for (let i = 0; i < 100; i++) pace.ran(pace.batch, Math.max(1, Math.round(usPerKey * pace.batch)))
      const us = pace.batch * usPerKey
      expect(us).toBeLessThanOrEqual(600)
      expect(us > 350 || pace.batch === MOST_KEYS).toBe(true)
    }),
  )
})

test('Pace never asks for more than it is allowed, or for nothing', () => {
  const events = fc.array(
    fc.oneof(
      fc.record({ us: fc.option(fc.integer({ min: 1, max: 100_000 }), { nil: undefined }) }),
      fc.constant('too long' as const),
    ),
    { maxLength: 50 },
  )
  fc.assert(
    fc.property(fc.integer({ min: 1, max: MOST_KEYS }), events, (most, seen) => {
      const pace = new Pace(most)
      for (const event of seen) {
        if (event === 'too long') pace.tookTooLong()
        else pace.ran(pace.batch, event.us)
        expect(pace.batch).toBeGreaterThanOrEqual(1)
        expect(pace.batch).toBeLessThanOrEqual(most)
        expect(Number.isInteger(pace.batch)).toBe(true)
      }
    }),
  )
})

test('Pace halves batches that took too long, and lets them grow again while they do not', () => {
  const pace = new Pace(200)
  pace.ran(100, 50)
  expect(pace.batch).toBe(200)
  pace.ran(200, LONGEST_SCRIPT_US + 1)
  expect(pace.batch).toBeLessThanOrEqual(100)
  for (let i = 0; i < 200; i++) pace.ran(pace.batch, 20)
  expect(pace.batch).toBe(200)
})

test('Pace keeps batches small where the server tells no time', () => {
  const pace = new Pace()
  pace.ran(100, undefined)
  expect(pace.batch).toBe(250)
})

test('Pace takes three slow answers in a row for a slow server, and one quick one for a server that is well', () => {
  const pace = new Pace()
  for (const ms of [20, 25, 90, 90, 60, 90, 90]) {
    pace.answered(ms)
    expect(pace.isSlow).toBe(false)
  }
  pace.answered(90)
  expect(pace.isSlow).toBe(true)
  pace.answered(30)
  expect(pace.isSlow).toBe(false)
})

test('Pace takes no server for slow that answers within 50 ms of its best', () => {
  const pace = new Pace()
  for (const ms of [0.1, 40, 45, 50, 49]) pace.answered(ms)
  expect(pace.isSlow).toBe(false)
})
