import { env } from 'cloudflare:workers'
import { inject } from 'vitest'
import { openObjectCounters } from '../../src/store/durable-object/table-clients.ts'
import { MemoryCounters } from '../../src/store/memory/memory-tables.ts'
import { RedisCounters } from '../../src/store/redis/counters/redis-counters.ts'
import { connectUpstash } from '../../src/store/redis/upstash-backend.ts'
import type { CountersOf } from './counters.ts'

const inMemory = new Map<string, MemoryCounters>()

export const WORKER_COUNTERS: Record<string, CountersOf> = {
  MemoryCounters(keyPrefix) {
    const counters = inMemory.get(keyPrefix) ?? new MemoryCounters(() => Date.now())
    inMemory.set(keyPrefix, counters)
    return counters
  },
  openObjectCounters: (keyPrefix) => openObjectCounters({ namespace: env.LIMITS, keyPrefix, timeoutMs: 60_000 }),
  'RedisCounters with key locking': (keyPrefix) => overUpstash(keyPrefix, inject('redisRestUrl')),
  'RedisCounters on plain Redis': (keyPrefix) => overUpstash(keyPrefix, inject('plainRestUrl')),
}

function overUpstash(keyPrefix: string, url: string) {
  const client = connectUpstash({ url, token: inject('redisRestToken') }, 60_000)
  return new RedisCounters({ client, keyPrefix, timeoutMs: 60_000 })
}
