import { expect, test } from 'vitest'
import type { DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import { listScriptArguments, readDecision } from '../../src/core/store/redis/script.ts'
import { createCharge } from '../support/charges.ts'

const limits = [
  { limit: 10, windowMs: 1_000 },
  { limit: 120, windowMs: 60_000 },
]
const charge = createCharge('sliding-window', limits, { key: 'sluice:default:w:{x}', cost: 2, reserved: 3 })
const shadow: StoreCharge = { ...charge, limits: [{ limit: 5, windowMs: 1 }], mode: 'shadow', cost: 1, reserved: 0 }
const request: DecisionRequest = { action: 'take-up-to', permits: 4, charges: [charge, shadow] }

test('listScriptArguments() writes ARGV as decide.lua reads it', () => {
  expect(listScriptArguments(request)).toEqual([
    ...['take-up-to', 4, 0],
    ...['w enforce requests 2 3', 5, 10, 1_000, 120, 60_000, 8],
    ...['w shadow requests 1 0', 3, 5, 1, 8],
  ])
  const penalized: StoreCharge = { ...charge, penalty: { durationMs: 9_000, after: 3 } }
  expect(listScriptArguments({ ...request, charges: [penalized] }, () => 3)).toEqual([
    ...['take-up-to', 4, 0],
    ...['w penalty requests 2 3 9000 3', 5, 10, 1_000, 120, 60_000, 3],
  ])
  const usual: StoreCharge = { ...charge, cost: 1, reserved: 0 }
  expect(listScriptArguments({ ...request, charges: [usual] })).toEqual([
    ...['take-up-to', 4, 0, 'w', 5, 10, 1_000, 120, 60_000, 8],
  ])
})

test('readDecision() reads how each limit of each charge stands', () => {
  expect(readDecision([3, 1_700_000_000_000, 4, 900, 0, 114, 60_000, 0, 0, 1, 1], request)).toEqual({
    granted: 3,
    nowMs: 1_700_000_000_000,
    usage: [
      [
        { remaining: 4, resetMs: 900, retryAfterMs: 0 },
        { remaining: 114, resetMs: 60_000, retryAfterMs: 0 },
      ],
      [{ remaining: 0, resetMs: 1, retryAfterMs: 1 }],
    ],
  })
})
