import { expect, inject, test } from 'vitest'
import { run } from './run.ts'

test('a block is in force at every point of presence, with no error meanwhile, and stays while Redis is dead', async () => {
  const spread = await run({ bundle: inject('bundle'), points: 2, ratePerS: 100, refreshMs: 300 })
  expect([...spread.errors]).toEqual([])
  expect(spread.activeAfterMs.every(Number.isFinite)).toBe(true)
  expect(spread.letInWithoutRedis).toBe(0)
  expect(spread.refusedWithoutRedis).toBeGreaterThan(0)
})
