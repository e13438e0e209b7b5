import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { LUA } from '../../src/core/store/redis/counters/lua.ts'
import {
  mergeSketches,
  NO_SKETCH,
  readSketch,
  type Sketch,
  truncateSketch,
  writeSketch,
} from '../../src/core/store/sketches.ts'
import { SpaceSaving } from '../../src/gateway/statistics/space-saving.ts'
import { shareRedis } from '../support/own-redis.ts'

const redis = shareRedis()

beforeAll(async () => {})

/** What was really seen. */
type Seen = ReadonlyMap<string, number>

const names = fc.constantFrom(...Array.from({ length: 12 }, (_, index) => `policy:caller${index}`))
const seen: fc.Arbitrary<Seen> = fc
  .array(fc.tuple(names, fc.integer({ min: 1, max: 50 })), { maxLength: 20 })
  .map((pairs) => new Map(pairs))
const capacities = fc.integer({ min: 1, max: 8 })

function createSketch(events: Seen, capacity: number): Sketch {
  const items = [...events].map(([name, count]) => ({ name, count, over: 0 }))
  return truncateSketch(items, 0, capacity)
}

function checkBounds({ items, floor }: Sketch, events: Seen, capacity: number): void {
  const total = [...events.values()].reduce((sum, count) => sum + count, 0)
  expect(items.length).toBeLessThanOrEqual(capacity)
  expect(floor * capacity).toBeLessThanOrEqual(total)
  const kept = new Set(items.map(({ name }) => name))
  for (const { name, count, over } of items) {
    const really = events.get(name) ?? 0
    expect(count).toBeGreaterThanOrEqual(really)
    expect(count - over).toBeLessThanOrEqual(really)
    expect(over * capacity).toBeLessThanOrEqual(total)
  }
  for (const [name, count] of events) if (!kept.has(name)) expect(count).toBeLessThanOrEqual(floor)
}

test('SpaceSaving#sketch() keeps its bounds for any stream', () => {
  const stream = fc.array(fc.integer({ min: 0, max: 30 }).map(String), { maxLength: 300 })
  const sizes = fc.integer({ min: 1, max: 12 })
  fc.assert(
    fc.property(stream, sizes, sizes, (stream, capacity, most) => {
      const sketch = new SpaceSaving(capacity)
      for (const name of stream) sketch.see(name)
      const events = new Map([...Map.groupBy(stream, (name) => name)].map(([name, seen]) => [name, seen.length]))
      checkBounds(sketch.toSketch(most), events, Math.min(capacity, most))
    }),
  )
})

test('merged sketches keep their bounds, whatever was merged in whatever order', () => {
  fc.assert(
    fc.property(fc.array(seen, { minLength: 1, maxLength: 8 }), capacities, (parts, capacity) => {
      const events = new Map<string, number>()
      for (const part of parts) for (const [name, count] of part) events.set(name, (events.get(name) ?? 0) + count)
      const sketches = parts.map((part) => createSketch(part, capacity))
      const inTurn = sketches.reduce((sum, sketch) => mergeSketches(sum, sketch, capacity), NO_SKETCH)
      checkBounds(inTurn, events, capacity)
      const asTree = (some: readonly Sketch[]): Sketch => {
        if (some.length < 2) return some[0] ?? NO_SKETCH
        const half = some.length >> 1
        return mergeSketches(asTree(some.slice(half)), asTree(some.slice(0, half)), capacity)
      }
      checkBounds(asTree(sketches), events, capacity)
    }),
  )
})

const labels = fc.option(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }), { nil: undefined })
const sketches: fc.Arbitrary<Sketch> = fc
  .tuple(
    fc.uniqueArray(fc.tuple(names, fc.nat(1_000), fc.nat(100), labels), { selector: ([name]) => name, maxLength: 8 }),
    fc.nat(100),
  )
  .map(([items, floor]) => {
    const all = items.map(([name, count, over, label]) => ({
      name,
      count,
      over,
      ...(label !== undefined && { label }),
    }))
    return truncateSketch(all, floor, 8)
  })

test('what writeSketch() writes, readSketch() reads', () => {
  fc.assert(
    fc.property(sketches, (sketch) => {
      expect(readSketch(writeSketch(sketch))).toEqual(sketch)
    }),
  )
})

test('readSketch() reads nothing else', () => {
  for (const text of ['', 'x', '1\n', '1\nname', '1\nname 1', '1\nname 1 x', '1\nname 1 2 3 4', '1\nname 1 2 %zz']) {
    expect(readSketch(text)).toBeUndefined()
  }
})

test('the script merges as its implementation in TypeScript does', async () => {
  const script = `return (function()\n${LUA['merge-sketches'].lua}\nend)()(ARGV[1] ~= '' and ARGV[1], ARGV[2], tonumber(ARGV[3]))`
  await fc.assert(
    fc.asyncProperty(fc.option(sketches, { nil: undefined }), sketches, capacities, async (one, other, capacity) => {
      const args = [one === undefined ? '' : writeSketch(one), writeSketch(other), String(capacity)]
      const merged = await redis.eval(script, { arguments: args })
      expect(merged).toBe(writeSketch(mergeSketches(one ?? NO_SKETCH, other, capacity)))
    }),
  )
})
