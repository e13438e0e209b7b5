import type { Backend } from '../backend.ts'
import type { DocumentStore } from '../documents.ts'
import { MemoryStore } from './memory-store.ts'

/**
 * Everything in this process's memory.
 * @param now milliseconds since the Unix epoch
 */
export function openMemoryBackend(now: () => number): Backend {
  const documents = new Map<string, DocumentStore>()
  return {
    limits: new MemoryStore(now),
    async documents(key) {
      const { MemoryDocuments } = await import('./memory-tables.ts')
      const known = documents.get(key) ?? new MemoryDocuments(now)
      documents.set(key, known)
      return known
    },
    async counters() {
      const { MemoryCounters } = await import('./memory-tables.ts')
      return new MemoryCounters(now)
    },
  }
}
