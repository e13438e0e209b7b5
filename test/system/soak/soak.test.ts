import { expect, inject, test } from 'vitest'
import { listGrowths, soak } from './run.ts'

test('mixed traffic with faults: counts are exact, slots come back, and a heap of 64 MiB is enough', async () => {
  const { samples, wrong, admitted } = await soak({ bundle: inject('bundle'), seconds: 60, ratePerS: 150 })
  expect(wrong).toEqual([])
  expect(admitted).toBeGreaterThan(0)
  expect(samples.length).toBeGreaterThan(0)
})

test('what grows is found, and what only varies is not', () => {
  const samples = Array.from({ length: 30 }, (_, at) => ({
    level: 100 + (at % 3),
    leak: 100 + 5 * at,
    spike: at % 7 === 6 ? 900 : 100,
  }))
  expect(listGrowths(samples)).toEqual(['leak: 175 in the second third, 225 in the last'])
})
