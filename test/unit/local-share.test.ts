import { expect, test } from 'vitest'
import { scaleToLocalShare } from '../../src/core/engine/engine.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { chargeOf } from '../support/charges.ts'

function limitsOf(charge: Partial<StoreCharge>, share: number): unknown {
  const limits = [
    { limit: 10, windowMs: 1_000 },
    { limit: 1_000, windowMs: 60_000 },
  ]
  const { limits: local, burst, reserved } = scaleToLocalShare(chargeOf('sliding-window', limits, charge), share)
  return { limits: local.map(({ limit }) => limit), burst, reserved }
}

test.each([
  ['all of it', {}, 1, { limits: [10, 1_000], burst: undefined, reserved: 0 }],
  ['a part, rounded down', {}, 0.25, { limits: [2, 250], burst: undefined, reserved: 0 }],
  ['room for one request', { cost: 4 }, 0.1, { limits: [4, 100], burst: undefined, reserved: 0 }],
  ['a part of the burst', { burst: 50 }, 0.5, { limits: [5, 500], burst: 25, reserved: 0 }],
  ['a part of what is reserved', { reserved: 8 }, 0.5, { limits: [5, 500], burst: undefined, reserved: 4 }],
  ['room beside that', { reserved: 9, cost: 1 }, 0.5, { limits: [5, 500], burst: undefined, reserved: 4 }],
])('scaleToLocalShare() allows %s', (_name, charge, share, expected) => {
  expect(limitsOf(charge, share)).toEqual(expected)
})
