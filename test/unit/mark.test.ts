import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createDigest } from '../../src/request/identity/digest.ts'
import { readRules } from '../../src/rules/document.ts'
import { createMarker, halfSipHash, MARKS } from '../../src/rules/mark.ts'
import { Rulebook } from '../../src/rules/rulebook.ts'

/** By another way to write it: on bytes, with an array for the state. */
function halfSipHashOfBytes(k0: number, k1: number, bytes: readonly number[]): number {
  const v = [k0, k1, 0x6c796765 ^ k0, 0x74656462 ^ k1].map((word) => word >>> 0) as [number, number, number, number]
  const rotated = (word: number, bits: number) => ((word << bits) | (word >>> (32 - bits))) >>> 0
  const round = () => {
    v[0] = (v[0] + v[1]) >>> 0
    v[1] = (rotated(v[1], 5) ^ v[0]) >>> 0
    v[0] = rotated(v[0], 16)
    v[2] = (v[2] + v[3]) >>> 0
    v[3] = (rotated(v[3], 8) ^ v[2]) >>> 0
    v[0] = (v[0] + v[3]) >>> 0
    v[3] = (rotated(v[3], 7) ^ v[0]) >>> 0
    v[2] = (v[2] + v[1]) >>> 0
    v[1] = (rotated(v[1], 13) ^ v[2]) >>> 0
    v[2] = rotated(v[2], 16)
  }
  const padded = [...bytes, ...Array(3 - (bytes.length % 4)).fill(0), bytes.length & 255]
  for (let at = 0; at < padded.length; at += 4) {
    const [a = 0, b = 0, c = 0, d = 0] = padded.slice(at, at + 4)
    const word = (a | (b << 8) | (c << 16) | (d << 24)) >>> 0
    v[3] = (v[3] ^ word) >>> 0
    round()
    v[0] = (v[0] ^ word) >>> 0
  }
  v[2] = (v[2] ^ 0xff) >>> 0
  for (let count = 0; count < 3; count++) round()
  return (v[1] ^ v[3]) | 0
}

const word = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })

test('halfSipHash() is HalfSipHash-1-3 of the code units of a text, from one of them on', () => {
  const law = fc.property(
    word,
    word,
    fc.string({ unit: 'binary', maxLength: 200 }),
    fc.nat(20),
    (k0, k1, text, skipped) => {
      const from = Math.min(skipped, text.length)
      const units = Array.from({ length: text.length - from }, (_, index) => text.charCodeAt(from + index))
      const bytes = units.flatMap((unit) => [unit & 255, unit >> 8])
      expect(halfSipHash(k0, k1, text, from)).toBe(halfSipHashOfBytes(k0, k1, bytes))
    },
  )
  fc.assert(law, { numRuns: 300 })
})

test('createMarker() makes marks that differ by secret, by name, and by most values', () => {
  const values = Array.from({ length: 10_000 }, (_, n) => `203.0.${n >> 8}.${n & 255}`)
  const markers = [
    createMarker('0123456789abcdef', 'ip'),
    createMarker(undefined, 'ip'),
    createMarker(undefined, 'token'),
  ]
  const marks = markers.map((mark) => values.map(mark))
  for (const list of marks) {
    expect(list.every((mark) => Number.isInteger(mark) && mark >= 0 && mark < MARKS)).toBe(true)
    // Drawn by chance, 9,266 of them would differ.
    expect(new Set(list).size).toBeGreaterThan(9_100)
  }
  const alike = (one = 0, other = 0) =>
    values.filter((_, index) => marks[one]?.[index] === marks[other]?.[index]).length
  expect([alike(0, 1), alike(1, 2)].every((count) => count < 10)).toBe(true)
})

test('rules are found by marks as they are without', () => {
  const value = fc.constantFrom('a', 'b', 'c', `${'x'.repeat(40)}1`, `y${'x'.repeat(39)}1`)
  const entries = fc.array(fc.record({ value, isMarked: fc.boolean() }), { maxLength: 4 })
  const by = 'header:x-tenant'
  const [digest, mark] = [createDigest(undefined), createMarker(undefined, by)]
  const law = fc.property(entries, value, fc.boolean(), (named, sent, isTwice) => {
    const book = (marked: (isMarked: boolean) => boolean) =>
      new Rulebook(
        readRules({
          blocks: named.map(({ value, isMarked }) => ({
            ...{ by, digest: digest([by, value]) },
            ...(marked(isMarked) && { mark: mark(value) }),
          })),
        }),
        { ipv6Prefix: 64, identitySecret: undefined },
      )
    const request = new Request('https://api.test', { headers: { 'X-Tenant': isTwice ? `z, ${sent}` : sent } })
    const found = [() => true, () => false, (isMarked: boolean) => isMarked].map((marked) =>
      book(marked).ordersFor(request, 0, { waitUntil() {} }),
    )
    expect(found.map((orders) => orders !== undefined)).toEqual(
      found.map(() => named.some((one) => one.value === sent)),
    )
  })
  fc.assert(law)
})
