import { expect, test } from 'vitest'
import { testScenario } from '../kit/scenario-test.ts'
import { Account } from './accounts.ts'
import { listGrowths } from './growth.ts'
import { SOAK } from './scenario.ts'

testScenario('mixed traffic with faults: counts are exact, slots come back, and a heap of 64 MiB is enough', SOAK, [
  { hours: 1 / 60, rate: 150, growth: 'not judged' },
  { hours: 1 / 30, rate: 150, growth: 'not judged' },
])

const createSamples = (requestsEach: number) =>
  Array.from({ length: 30 }, (_, at) => ({
    requests: (at + 1) * requestsEach,
    held: { level: 100 + (at % 3), leak: 100 + 5 * at, spike: at % 7 === 6 ? 900 : 100 },
  }))

test('what grows is found, and what only varies is not', () => {
  const wrong = ['leak: 150 in the second third of the requests, 200 in the last']
  expect(listGrowths(createSamples(1_000))).toEqual({ wrong, missing: [] })
})

test('growth over too few requests is told as inconclusive', () => {
  expect(listGrowths(createSamples(900))).toMatchObject({ wrong: [], missing: [expect.stringContaining('27000')] })
})

const LIMIT = { limit: 2, windowMs: 1_000 }

/** Judges answers, a millisecond each. */
function check(...answers: readonly (readonly [ms: number, answered: Parameters<Account['add']>[0]])[]): string[] {
  const account = new Account(LIMIT)
  for (const [ms, answered] of answers) account.add(answered, ms, ms + 1)
  return account.check(10_000, true)
}

test('a window above its limit is found, and a refusal for which there was room', () => {
  expect(check([0, 'admitted'], [500, 'admitted'], [900, 'refused'], [1_100, 'admitted'])).toEqual([])
  expect(check([0, 'admitted'], [500, 'admitted'], [900, 'admitted'])).toEqual(['1 windows above the limit'])
  expect(check([0, 'admitted'], [500, 'admitted'], [1_010, 'refused'])).toEqual(['1 refused with room for them'])
  // The store may have charged it late.
  expect(check([0, 'admitted'], [100, 'doubtful'], [1_010, 'refused'])).toEqual(['1 refused with room for them'])
  expect(check([0, 'doubtful'], [500, 'admitted'], [1_010, 'refused'])).toEqual([])
})
