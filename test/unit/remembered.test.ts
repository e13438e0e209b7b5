import { expect, test } from 'vitest'
import { Remembered } from '../../src/request/remembered.ts'

const token = (n: number) => `Bearer ${String(n).padStart(33, '0')}`

/** How many of the first `count` tokens are known still. */
function known(remembered: Remembered<number>, count: number): number {
  let known = 0
  for (let n = 0; n < count; n++) if (remembered.get(token(n)) === n) known++
  return known
}

test('Remembered#get() knows each of some thousand callers that take turns', () => {
  const remembered = new Remembered<number>()
  for (let turn = 0; turn < 5; turn++) {
    for (let n = 0; n < 8_000; n++) {
      expect(remembered.get(token(n))).toBe(turn === 0 ? undefined : n)
      if (turn === 0) remembered.set(token(n), n)
    }
  }
})

test('Remembered#set() holds two generations at most, however many strangers come', () => {
  const remembered = new Remembered<number>()
  for (let n = 0; n < 100_000; n++) remembered.set(token(n), n)
  // Asking moves what is old among the young, and forgets the rest: that makes no more.
  expect(known(remembered, 100_000)).toBeLessThan(20_000)
})

test('Remembered#set() holds fewer of long texts', () => {
  const remembered = new Remembered<number>()
  const long = (n: number) => token(n).padEnd(1_000, 'x')
  for (let n = 0; n < 10_000; n++) remembered.set(long(n), n)
  const kept = Array.from({ length: 10_000 }, (_, n) => remembered.get(long(n))).filter((n) => n !== undefined)
  expect(kept.length).toBeLessThan(2 * 2_000)
  remembered.set(`${long(1)}x`, 1)
  expect(remembered.get(`${long(1)}x`)).toBeUndefined()
})
