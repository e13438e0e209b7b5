import { env } from 'cloudflare:workers'
import { inject } from 'vitest'
import type { StatisticsStore } from '../../src/core/store/counters.ts'
import type { DocumentStore } from '../../src/core/store/documents.ts'
import { DurableObjectStore } from '../../src/core/store/durable-object/durable-object-store.ts'
import { openObjects } from '../../src/core/store/durable-object/objects.ts'
import { openObjectCounters, openObjectDocuments } from '../../src/core/store/durable-object/tables.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { MemoryCounters, MemoryDocuments } from '../../src/core/store/memory/memory-tables.ts'
import { RedisCounters } from '../../src/core/store/redis/counters/redis-counters.ts'
import { RedisDocuments } from '../../src/core/store/redis/documents/redis-documents.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { connectUpstash, openUpstashBackend } from '../../src/core/store/redis/upstash-backend.ts'
import { EVERY_ALGORITHM } from './charges.ts'
import { realTimeSubject, type Subject } from './subject.ts'

const objects = openObjects(env.LIMITS)

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
  DurableObjectStore: () => realTimeSubject(new DurableObjectStore({ objects, timeoutMs: 60_000 })),
  'RedisStore with key locking': () => upstashSubject(inject('redisRestUrl')),
  'RedisStore on plain Redis': () => upstashSubject(inject('plainRestUrl')),
}

function upstashSubject(url: string): Subject {
  const algorithms = new Set(EVERY_ALGORITHM)
  return realTimeSubject(
    openUpstashBackend({ url, token: inject('redisRestToken'), algorithms, moreLua: LUA, timeoutMs: 60_000 }).limits,
  )
}

export const DOCUMENTS: Record<string, (key: string) => DocumentStore> = {
  MemoryDocuments: sharedByKey(() => new MemoryDocuments(() => Date.now())),
  ObjectDocuments: (key) => openObjectDocuments({ namespace: env.LIMITS, key, timeoutMs: 60_000 }),
  'RedisDocuments with key locking': (key) => upstashDocumentsAt(inject('redisRestUrl'), key),
  'RedisDocuments on plain Redis': (key) => upstashDocumentsAt(inject('plainRestUrl'), key),
}

function upstashDocumentsAt(url: string, key: string): DocumentStore {
  const client = connectUpstash({ url, token: inject('redisRestToken') })
  return new RedisDocuments({ client, key, timeoutMs: 60_000 })
}

export const COUNTERS: Record<string, (keyPrefix: string) => StatisticsStore> = {
  MemoryCounters: sharedByKey(() => new MemoryCounters(() => Date.now())),
  ObjectCounters: (keyPrefix) => openObjectCounters({ namespace: env.LIMITS, keyPrefix, timeoutMs: 60_000 }),
  'RedisCounters with key locking': (keyPrefix) => upstashCountersAt(inject('redisRestUrl'), keyPrefix),
  'RedisCounters on plain Redis': (keyPrefix) => upstashCountersAt(inject('plainRestUrl'), keyPrefix),
}

function upstashCountersAt(url: string, keyPrefix: string) {
  const client = connectUpstash({ url, token: inject('redisRestToken') }, 60_000)
  return new RedisCounters({ client, keyPrefix, timeoutMs: 60_000 })
}

/** Answers the same table for the same key, as Redis does. */
function sharedByKey<T>(open: () => T): (key: string) => T {
  const all = new Map<string, T>()
  return (key) => {
    const table = all.get(key) ?? open()
    all.set(key, table)
    return table
  }
}
