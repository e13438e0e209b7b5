import { env } from 'cloudflare:workers'
import { inject } from 'vitest'
import type { DocumentStore } from '../../src/store/documents.ts'
import { DurableObjectStore } from '../../src/store/durable-object/durable-object-store.ts'
import { openObjects } from '../../src/store/durable-object/objects.ts'
import { openObjectDocuments } from '../../src/store/durable-object/table-clients.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { MemoryDocuments } from '../../src/store/memory/memory-tables.ts'
import { RedisDocuments } from '../../src/store/redis/documents/redis-documents.ts'
import { LUA } from '../../src/store/redis/more-lua.ts'
import { connectUpstash, openUpstashBackend } from '../../src/store/redis/upstash-backend.ts'
import { EVERY_ALGORITHM } from './rules.ts'
import { realTimeSubject, type Subject } from './subject.ts'

const objects = openObjects(env.LIMITS)

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

export const WORKER_DOCUMENTS: Record<string, (key: string) => DocumentStore> = {
  MemoryDocuments: memoryDocuments(),
  openObjectDocuments: (key) => openObjectDocuments({ namespace: env.LIMITS, key, timeoutMs: 60_000 }),
  'RedisDocuments with key locking': (key) => upstashDocumentsAt(inject('redisRestUrl'), key),
  'RedisDocuments on plain Redis': (key) => upstashDocumentsAt(inject('plainRestUrl'), key),
}

function upstashDocumentsAt(url: string, key: string): DocumentStore {
  const client = connectUpstash({ url, token: inject('redisRestToken') })
  return new RedisDocuments({ client, key, timeoutMs: 60_000 })
}

/** The same document for the same key, as in Redis. */
function memoryDocuments(): (key: string) => DocumentStore {
  const all = new Map<string, DocumentStore>()
  return (key) => {
    const documents = all.get(key) ?? new MemoryDocuments(() => Date.now())
    all.set(key, documents)
    return documents
  }
}
