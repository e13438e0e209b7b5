import { expect, test } from 'vitest'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { EntriesToRead } from '../../src/core/store/redis/redis-store.ts'
import { chargeOf } from '../support/charges.ts'

const limits = [
  { limit: 100, windowMs: 1_000 },
  { limit: 1_000, windowMs: 60_000 },
]
const charge = chargeOf('sliding-window', limits, { key: 'sluice:default:w:{x}', cost: 2 })

function afterReplies(
  replies: readonly (readonly [remaining: number, remaining: number])[],
  charges = [charge],
  permits = 1,
) {
  const entriesToRead = new EntriesToRead()
  for (const left of replies) {
    const usage = charges.map(() => left.map((remaining) => ({ remaining, resetMs: 1, retryAfterMs: 0 })))
    entriesToRead.update({ action: 'take', permits, charges }, { granted: 1, nowMs: 1, usage })
  }
  return charges.map((each) => entriesToRead.find(each))
}

test('as many entries of this size are read as the fullest of the limits holds that hold few, and three more', () => {
  expect(afterReplies([])).toEqual([undefined])
  expect(afterReplies([[100, 1_000]])).toEqual([3])
  expect(afterReplies([[98, 996]])).toEqual([5])
  expect(afterReplies([[98, 990]])).toEqual([8])
  expect(afterReplies([[98, 982]])).toEqual([8])
  expect(afterReplies([[98, 980]])).toEqual([4])
  expect(afterReplies([[90, 980]], [charge], 5)).toEqual([5])
})

test('the newest alone is read if each limit holds many', () => {
  expect(afterReplies([[80, 980]])).toEqual([1])
  expect(afterReplies([[80, 980]], [charge], 5)).toEqual([5])
  expect(
    afterReplies([
      [80, 980],
      [98, 980],
    ]),
  ).toEqual([4])
})

test('no more is read than a limit can hold, and the entry before', () => {
  const short: StoreCharge = { ...charge, limits: [{ limit: 9, windowMs: 1_000 }] }
  expect(afterReplies([[1, 1]], [short])).toEqual([5])
  const strict: StoreCharge = { ...charge, limits: [{ limit: 1, windowMs: 1_000 }], cost: 1 }
  expect(afterReplies([[0, 0]], [strict])).toEqual([2])
})

test('other algorithms have no streams, and other keys are not meant', () => {
  const sorted: StoreCharge = { ...charge, key: 'sluice:other:z:{x}', algorithm: 'sorted-set' }
  expect(afterReplies([[0, 0]], [charge, sorted])).toEqual([1, undefined])
})
