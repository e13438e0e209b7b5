import { expect, test } from 'vitest'
import { Generations } from '../../src/runtime/lru.ts'

test('Generations#set() holds no more than it may, and half of that for certain', () => {
  const map = new Generations<number>(1_000)
  for (let n = 0; n < 10_000; n++) map.set(`${n}`, n)
  const held = Array.from({ length: 10_000 }, (_, n) => map.get(`${n}`)).filter((n) => n !== undefined)
  expect(held.length).toBeLessThanOrEqual(1_000)
  expect(held.slice(-500)).toEqual(Array.from({ length: 500 }, (_, n) => 9_500 + n))
})

test('Generations#set() of an entry that is there takes no room', () => {
  const map = new Generations<number>(10)
  map.set('a', 0)
  for (let n = 1; n <= 100; n++) map.set('b', n)
  expect([map.get('a'), map.get('b')]).toEqual([0, 100])
})

test('Generations#get() keeps what is asked for', () => {
  const map = new Generations<string>(10)
  map.set('regular', 'known')
  for (let n = 0; n < 100; n++) {
    map.set(`${n}`, 'stranger')
    expect(map.get('regular')).toBe('known')
  }
})

test('Generations#clear() forgets both generations', () => {
  const map = new Generations<number>(4)
  for (const n of [1, 2, 3]) map.set(`${n}`, n)
  map.clear()
  expect([map.get('1'), map.get('2'), map.get('3')]).toEqual([undefined, undefined, undefined])
})
