import { expect, test } from 'vitest'
import { IdentityMemory } from '../../src/core/engine/refusals/identity-memory.ts'

const NOW_MS = 1_000_000

test('IdentityMemory knows who was admitted, and for a second who was refused as new', () => {
  const memory = new IdentityMemory()
  memory.noteNew('a', NOW_MS)
  expect([999, 1_000].map((ms) => memory.isNew('a', NOW_MS + ms))).toEqual([true, false])
  memory.admitLookUp('seen', 'cap', 0, NOW_MS)
  for (const key of ['a', 'seen', 'never']) expect(memory.isKnown(key)).toBe(false)
  memory.noteKnown('a')
  expect(memory.isKnown('a')).toBe(true)
  for (const key of ['a', 'seen', 'never']) expect(memory.isNew(key, NOW_MS)).toBe(false)
})

test('IdentityMemory looks an identity up at its first sight, until eight a second are, and then not for ten seconds', () => {
  const memory = new IdentityMemory()
  let keys = 0
  const admitFirst = (calls: number, atMs: number, countingKey = 'cap') =>
    memory.admitLookUp(`key ${++keys}`, countingKey, calls, NOW_MS + atMs)
  expect([admitFirst(7, 0), admitFirst(8, 0), admitFirst(0, 9_999), admitFirst(0, 10_000)]).toEqual([
    true,
    false,
    false,
    true,
  ])
  expect([admitFirst(8, 20_000), admitFirst(0, 20_000, 'other cap'), admitFirst(0, 20_000)]).toEqual([
    false,
    true,
    false,
  ])
})

test('IdentityMemory looks up one that comes again, unless it is new, and always one that is known', () => {
  const memory = new IdentityMemory()
  const admit = (key: string, calls: number, atMs = 0) => memory.admitLookUp(key, 'cap', calls, NOW_MS + atMs)
  expect([admit('a', 100), admit('a', 9), admit('a', 8)]).toEqual([false, false, true])
  memory.noteNew('a', NOW_MS)
  expect([admit('a', 8, 999), admit('a', 9, 1_000), admit('a', 8, 1_000)]).toEqual([false, false, true])
  memory.noteKnown('a')
  expect(admit('a', 100)).toBe(true)
})
