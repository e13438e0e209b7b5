import { inject } from 'vitest'
import { upstashStore } from '../../src/gateway/upstash-store.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { EVERY_ALGORITHM } from './rules.ts'
import { redisSubject, type Subject } from './stores.ts'

export const WORKER_STORES: Record<string, () => Subject> = {
  MemoryStore() {
    let now = 1_700_000_000_000
    return {
      store: new MemoryStore(() => now),
      async advance(ms) {
        now += ms
      },
    }
  },
  'RedisStore with key locking': () => upstashSubject(inject('redisRestUrl')),
  'RedisStore on plain Redis': () => upstashSubject(inject('plainRestUrl')),
}

function upstashSubject(url: string): Subject {
  const algorithms = new Set(EVERY_ALGORITHM)
  return redisSubject(upstashStore({ url, token: inject('redisRestToken'), algorithms, timeoutMs: 60_000 }))
}
