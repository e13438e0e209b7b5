import { env } from 'cloudflare:workers'
import { inject } from 'vitest'
import { ObjectCounters } from '../../src/store/durable-object/table-clients.ts'
import { MemoryCounters } from '../../src/store/memory/memory-tables.ts'
import { upstashCounters } from '../../src/store/redis/upstash-tables.ts'
import type { CountersOf } from './counters.ts'

const inMemory = new Map<string, MemoryCounters>()

export const WORKER_COUNTERS: Record<string, CountersOf> = {
  MemoryCounters(keyPrefix) {
    const counters = inMemory.get(keyPrefix) ?? new MemoryCounters(() => Date.now())
    inMemory.set(keyPrefix, counters)
    return counters
  },
  ObjectCounters: (keyPrefix) => new ObjectCounters({ namespace: env.LIMITS, keyPrefix, timeoutMs: 60_000 }),
  'RedisCounters with key locking': (keyPrefix) => overUpstash(keyPrefix, inject('redisRestUrl')),
  'RedisCounters on plain Redis': (keyPrefix) => overUpstash(keyPrefix, inject('plainRestUrl')),
}

function overUpstash(keyPrefix: string, url: string) {
  return upstashCounters({ url, token: inject('redisRestToken'), keyPrefix, timeoutMs: 60_000 })
}
