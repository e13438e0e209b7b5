import { expect, test } from 'vitest'
import { GuardedStore } from '../../src/engine/guarded-store.ts'
import { ShadowedStore } from '../../src/engine/shadowed-store.ts'
import type { Store } from '../../src/model/store.ts'
import { MeasuredStore } from '../../src/statistics/measured-store.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'

const now = () => 1_800_000_000_000
const OPTIONS = { now, timeoutMs: 500, log() {} }
const WATCH = { storeAnswered() {}, storeFailed() {} }

test.each<[string, (store: Store) => Store]>([
  ['MeasuredStore', (store) => new MeasuredStore(store, WATCH, now)],
  ['GuardedStore', (store) => new GuardedStore({ ...OPTIONS, store })],
  ['ShadowedStore', (store) => new ShadowedStore({ ...OPTIONS, store, shadow: new MemoryStore(now) })],
])('%s lets the store know which algorithms rules may name', (_, around) => {
  const learned: string[] = []
  const store = Object.assign(new MemoryStore(now), {
    learn: (algorithms: Iterable<string>) => void learned.push(...algorithms),
  })
  around(store).learn?.(['quota', 'sorted-set'])
  expect(learned).toEqual(['quota', 'sorted-set'])
})
