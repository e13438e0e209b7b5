import { inject } from 'vitest'
import { upstashStore } from '../../src/gateway/upstash-store.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import type { Store } from '../../src/store/store.ts'
import { EVERY_ALGORITHM } from './rules.ts'

/** A store under test, and its time. */
export interface Subject {
  readonly store: Store
  /** Lets exactly this much time go by. */
  advance(ms: number): Promise<void>
}

/** Every store that the contract suites run over, by name. */
export const STORES: Record<string, () => Subject> = {
  MemoryStore() {
    let now = 1_700_000_000_000
    return {
      store: new MemoryStore(() => now),
      async advance(ms) {
        now += ms
      },
    }
  },
  'RedisStore with key locking': () => redisSubject(inject('redisRestUrl')),
  'RedisStore on plain Redis': () => redisSubject(inject('plainRestUrl')),
}

function redisSubject(url: string): Subject {
  const algorithms = new Set(EVERY_ALGORITHM)
  return {
    store: upstashStore({ url, token: inject('redisRestToken'), algorithms, timeoutMs: 60_000 }),
    // Redis's clock is this machine's, and the wait begins after Redis has read it.
    advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  }
}
