import { expect, test } from 'vitest'
import { StatusCache } from '../../src/core/engine/refusals/status-cache.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { createCharge, take } from '../support/charges.ts'

const CHARGE = createCharge('sliding-window', [{ limit: 5, windowMs: 60_000 }])
const REPLY = { granted: 1, nowMs: 1_000, usage: [[{ remaining: 4, resetMs: 60_000, retryAfterMs: 0 }]] }

const planned = (n: number): StoreCharge => ({ ...CHARGE, plan: `${n}` })

test.each([1, 99, 100, 250])('StatusCache#delete() reaches a key under each of %i names', (count) => {
  const statuses = new StatusCache()
  const charges = Array.from({ length: count }, (_, n) => planned(n))
  const isFresh = (charge: StoreCharge) => statuses.update(take([charge]), REPLY, 0, 0)[0]
  for (const charge of charges) statuses.update(take([charge]), REPLY, 0, statuses.replies)
  statuses.delete([CHARGE.key])
  // A reply to a call from before says nothing any more.
  expect(charges.map(isFresh)).toEqual(charges.map(() => false))
})
