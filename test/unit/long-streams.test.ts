import { expect, test } from 'vitest'
import type { StoreCharge } from '../../src/model/charge.ts'
import { LongStreams } from '../../src/store/redis/redis-store.ts'
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
  const streams = new LongStreams()
  for (const left of replies) {
    const usage = charges.map(() => left.map((remaining) => ({ remaining, resetMs: 1, retryAfterMs: 0 })))
    streams.update({ action: 'take', permits, charges }, { granted: 1, nowMs: 1, usage })
  }
  return charges.map((each) => streams.has(each))
}

test('a stream is long once more is used of each limit than eight entries of this size hold', () => {
  expect(afterReplies([])).toEqual([false])
  expect(afterReplies([[84, 984]])).toEqual([false])
  expect(afterReplies([[82, 984]])).toEqual([false])
  expect(afterReplies([[82, 982]])).toEqual([true])
  expect(afterReplies([[82, 982]], [charge], 5)).toEqual([false])
  expect(afterReplies([[18, 918]], [charge], 5)).toEqual([true])
})

test('it is long no more once a limit has room again, or nothing was said', () => {
  const left = [82, 982] as const
  expect(afterReplies([left, [98, 982]])).toEqual([false])
  const streams = new LongStreams()
  streams.update({ action: 'take', permits: 1, charges: [charge] }, { granted: 1, nowMs: 1, usage: [] })
  expect(streams.has(charge)).toBe(false)
})

test('other algorithms have no streams, and other keys are not meant', () => {
  const sorted: StoreCharge = { ...charge, key: 'sluice:other:z:{x}', algorithm: 'sorted-set' }
  expect(afterReplies([[0, 0]], [charge, sorted])).toEqual([true, false])
})
