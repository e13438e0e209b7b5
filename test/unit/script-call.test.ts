import { expect, test } from 'vitest'
import type { DecisionRequest, StoreCharge } from '../../src/model/charge.ts'
import { readDecision, scriptArguments } from '../../src/store/redis/script.ts'
import { ruleOf } from '../support/rules.ts'

const tiers = [
  { limit: 10, windowMs: 1_000 },
  { limit: 120, windowMs: 60_000 },
]
const rule = ruleOf('sliding-window', tiers, { key: 'sluice:default:w:{x}', cost: 2, reserved: 3 })
const shadow: StoreCharge = { ...rule, tiers: [{ limit: 5, windowMs: 1 }], enforced: false, cost: 1, reserved: 0 }
const request: DecisionRequest = { mode: 'partial', permits: 4, rules: [rule, shadow] }

test('scriptArguments() writes ARGV as decide.lua reads it', () => {
  expect(scriptArguments(request)).toEqual([
    ...['partial', 4, 0],
    ...['w enforce requests 2 3', 4, 10, 1_000, 120, 60_000],
    ...['w shadow requests 1 0', 2, 5, 1],
  ])
  const blocking: StoreCharge = { ...rule, block: { blockMs: 9_000, after: 3 } }
  expect(scriptArguments({ ...request, rules: [blocking] }, () => true)).toEqual([
    ...['partial', 4, 0],
    ...['w block requests 2 3 9000 3', 5, 10, 1_000, 120, 60_000, 1],
  ])
  const usual: StoreCharge = { ...rule, cost: 1, reserved: 0 }
  expect(scriptArguments({ ...request, rules: [usual] })).toEqual(['partial', 4, 0, 'w', 4, 10, 1_000, 120, 60_000])
})

test('readDecision() reads how each tier of each rule stands', () => {
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
