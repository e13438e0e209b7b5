import { expect, test } from 'vitest'
import { Lru, TextLru } from '../../src/core/runtime/lru.ts'

test('Lru#set() holds no more than it may, and half of that for certain', () => {
  const map = new Lru<number>(1_000)
  for (let n = 0; n < 10_000; n++) map.set(`${n}`, n)
  const held = Array.from({ length: 10_000 }, (_, n) => map.get(`${n}`)).filter((n) => n !== undefined)
  expect(held.length).toBeLessThanOrEqual(1_000)
  expect(held.slice(-500)).toEqual(Array.from({ length: 500 }, (_, n) => 9_500 + n))
})

test('Lru#set() of an entry that is there takes no room', () => {
  const map = new Lru<number>(10)
  map.set('a', 0)
  for (let n = 1; n <= 100; n++) map.set('b', n)
  expect([map.get('a'), map.get('b')]).toEqual([0, 100])
})

test('Lru#get() keeps what it returns', () => {
  const map = new Lru<string>(10)
  map.set('regular', 'known')
  for (let n = 0; n < 100; n++) {
    map.set(`${n}`, 'stranger')
    expect(map.get('regular')).toBe('known')
  }
})

const token = (n: number) => `Bearer ${String(n).padStart(33, '0')}`

/** How many of the first `count` tokens are known still. */
function known(remembered: TextLru<number>, count: number): number {
  let known = 0
  for (let n = 0; n < count; n++) if (remembered.get(token(n)) === n) known++
  return known
}

test('TextLru#get() knows each of some thousand callers that take turns', () => {
  const remembered = new TextLru<number>()
  for (let turn = 0; turn < 5; turn++) {
    for (let n = 0; n < 8_000; n++) {
      expect(remembered.get(token(n))).toBe(turn === 0 ? undefined : n)
      if (turn === 0) remembered.set(token(n), n)
    }
  }
})

test('TextLru#set() holds two generations at most, however many strangers come', () => {
  const remembered = new TextLru<number>()
  for (let n = 0; n < 100_000; n++) remembered.set(token(n), n)
  // Asking moves what is old among the young, and forgets the rest: that makes no more.
  expect(known(remembered, 100_000)).toBeLessThan(20_000)
})

test('TextLru#set() holds fewer of long texts', () => {
  const remembered = new TextLru<number>()
  const long = (n: number) => token(n).padEnd(1_000, 'x')
  for (let n = 0; n < 10_000; n++) remembered.set(long(n), n)
  const kept = Array.from({ length: 10_000 }, (_, n) => remembered.get(long(n))).filter((n) => n !== undefined)
  expect(kept.length).toBeLessThan(2 * 2_000)
  remembered.set(`${long(1)}x`, 1)
  expect(remembered.get(`${long(1)}x`)).toBeUndefined()
})
