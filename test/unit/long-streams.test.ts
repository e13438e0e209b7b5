import { expect, test } from 'vitest'
import type { StoreCharge } from '../../src/model/charge.ts'
import { LongStreams } from '../../src/store/redis/redis-store.ts'
import { ruleOf } from '../support/rules.ts'

const tiers = [
  { limit: 100, windowMs: 1_000 },
  { limit: 1_000, windowMs: 60_000 },
]
const rule = ruleOf('sliding-window', tiers, { key: 'sluice:default:w:{x}', cost: 2 })

function afterReplies(
  replies: readonly (readonly [remaining: number, remaining: number])[],
  rules = [rule],
  permits = 1,
) {
  const streams = new LongStreams()
  for (const left of replies) {
    const usage = rules.map(() => left.map((remaining) => ({ remaining, resetMs: 1, retryAfterMs: 0 })))
    streams.hear({ mode: 'all', permits, rules }, { granted: 1, nowMs: 1, usage })
  }
  return rules.map((each) => streams.has(each))
}

test('a stream is long once more is used of each tier than eight entries of this size hold', () => {
  expect(afterReplies([])).toEqual([false])
  expect(afterReplies([[84, 984]])).toEqual([false])
  expect(afterReplies([[82, 984]])).toEqual([false])
  expect(afterReplies([[82, 982]])).toEqual([true])
  expect(afterReplies([[82, 982]], [rule], 5)).toEqual([false])
  expect(afterReplies([[18, 918]], [rule], 5)).toEqual([true])
})

test('it is long no more once a tier has room again, or nothing was said', () => {
  const left = [82, 982] as const
  expect(afterReplies([left, [98, 982]])).toEqual([false])
  const streams = new LongStreams()
  streams.hear({ mode: 'all', permits: 1, rules: [rule] }, { granted: 1, nowMs: 1, usage: [] })
  expect(streams.has(rule)).toBe(false)
})

test('other algorithms have no streams, and other keys are not meant', () => {
  const sorted: StoreCharge = { ...rule, key: 'sluice:other:z:{x}', algorithm: 'sorted-set' }
  expect(afterReplies([[0, 0]], [rule, sorted])).toEqual([true, false])
})
