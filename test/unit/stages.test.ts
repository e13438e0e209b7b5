import { expect, test } from 'vitest'
import { withBreaker } from '../../src/engine/circuit-breaker.ts'
import { Mirror, withMirror } from '../../src/engine/mirror.ts'
import { withRefusalLimit } from '../../src/engine/refusal-limit.ts'
import type { Stage } from '../../src/engine/stage.ts'
import { withTiming } from '../../src/statistics/with-timing.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'

const now = () => 1_800_000_000_000
const OPTIONS = { now, log() {} }
const WATCH = { onStoreAnswered() {}, onStoreFailed() {} }

test.each<[string, Stage]>([
  ['withTiming()', withTiming(WATCH, now)],
  ['withBreaker()', withBreaker({ ...OPTIONS, breaker: undefined })],
  ['withRefusalLimit()', withRefusalLimit(now)],
  ['withMirror()', withMirror(new Mirror({ ...OPTIONS, timeoutMs: 500, store: new MemoryStore(now) }))],
])('%s lets the store know which algorithms rules may name', (_, stage) => {
  const learned: string[] = []
  const store = Object.assign(new MemoryStore(now), {
    learn: (algorithms: Iterable<string>) => void learned.push(...algorithms),
  })
  stage(store).learn?.(['quota', 'sorted-set'])
  expect(learned).toEqual(['quota', 'sorted-set'])
})
