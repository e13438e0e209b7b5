/** Shedding is for an upstream that has too much to do for all: one caller must not be able to bring it about. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { expectProperty } from '../../support/property.ts'
import { Timeline } from './upstream-model.ts'

const SECOND = 1_000

interface Answer {
  readonly latencyMs: number
  readonly isOverload: boolean
}

const strangers = fc.record({
  requestsPerSecond: fc.integer({ min: 1, max: 400 }),
  // Well, failing or hanging, and all of them in turns.
  answers: fc.array(fc.record({ latencyMs: fc.constantFrom(0, 5, 50, 500, 5_000, 60_000), isOverload: fc.boolean() }), {
    minLength: 1,
    maxLength: 4,
  }),
  beginsMs: fc.integer({ min: 0, max: 20 * SECOND }),
})

/** The highest level that was seen. */
function highestLevel(
  callers: readonly { name: string; everyMs: number; fromMs: number; answers: readonly Answer[] }[],
) {
  const timeline = new Timeline()
  const health = timeline.watchHealth()
  let highest = 0
  for (const { name, everyMs, fromMs, answers } of callers) {
    let count = 0
    const ask = () => {
      health.sheds('sheddable')
      highest = Math.max(highest, health.level)
      const { latencyMs, isOverload } = answers[count++ % answers.length] as Answer
      const end = health.begin(name)
      timeline.at(timeline.nowMs + latencyMs, () => end(isOverload))
      timeline.at(timeline.nowMs + everyMs, ask)
    }
    timeline.at(fromMs, ask)
  }
  timeline.runUntil(40 * SECOND)
  return highest
}

test('UpstreamHealth: one caller, whatever becomes of his requests, brings about no shedding', () => {
  return expectProperty(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 40 }),
      strangers,
      async (others, { requestsPerSecond, answers, beginsMs }) => {
        const well = Array.from({ length: others }, (_, index) => ({
          name: `198.51.100.${index}`,
          everyMs: 150,
          fromMs: (37 * index) % 150,
          answers: [{ latencyMs: 40 + index, isOverload: false }],
        }))
        const one = { name: '203.0.113.7', everyMs: SECOND / requestsPerSecond, fromMs: beginsMs, answers }
        expect(highestLevel([...well, one])).toBe(0)
      },
    ),
    80,
  )
})

test('UpstreamHealth: what becomes of the requests of many does', () => {
  const failing = Array.from({ length: 31 }, (_, index) => ({
    name: `198.51.100.${index}`,
    everyMs: 150 + index,
    fromMs: index,
    answers: [
      { latencyMs: 40, isOverload: false },
      { latencyMs: 40, isOverload: true },
    ],
  }))
  expect(highestLevel(failing)).toBe(2)
})
