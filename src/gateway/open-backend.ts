import { type Config, type Environment, OBJECTS } from '../config/load-config.ts'
import type { StoreKind } from '../config/variables.ts'
import { consoleLog } from '../runtime/log.ts'
import type { Backend } from '../store/backend.ts'
import type { ObjectNamespace } from '../store/durable-object/objects-of.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'

/** @param now milliseconds since the Unix epoch */
type OpenBackend = (config: Config, env: Environment, now: () => number) => Promise<Backend>

/** Nobody waits for a flush; the next one is due after ten seconds. */
const FLUSH_TIMEOUT_MS = 4_000

const BACKENDS = {
  async redis({ redis, policies, rules, keyPrefix, storeTimeoutMs: timeoutMs }) {
    if (!redis) throw new Error('a store over Redis without Redis')
    const algorithms = new Set(policies.map(({ algorithm }) => algorithm))
    // Rules may bring any.
    const isPlain = !rules && policies.every(({ algorithm, block }) => algorithm === 'sliding-window' && !block)
    const moreLua = isPlain ? undefined : (await import('../store/redis/more-lua.ts')).LUA
    const { upstashStore } = await import('./upstash-store.ts')
    return {
      limits: upstashStore({ ...redis, algorithms, moreLua, timeoutMs }),
      async openDocuments(key) {
        const { upstashDocuments } = await import('./upstash-documents.ts')
        return upstashDocuments({ ...redis, key, timeoutMs })
      },
      async openCounters() {
        const { upstashCounters } = await import('./upstash-counters.ts')
        return upstashCounters({ ...redis, keyPrefix, timeoutMs: FLUSH_TIMEOUT_MS })
      },
    }
  },

  async 'durable-object'({ keyPrefix, storeTimeoutMs: timeoutMs }, env) {
    const namespace = env[OBJECTS] as ObjectNamespace
    const { objectStore } = await import('./object-store.ts')
    return {
      limits: objectStore(namespace, timeoutMs),
      async openDocuments(key) {
        const { ObjectDocuments } = await import('../store/durable-object/tables/object-documents.ts')
        return new ObjectDocuments({ namespace, key, timeoutMs })
      },
      async openCounters() {
        const { ObjectCounters } = await import('../store/durable-object/tables/object-counters.ts')
        return new ObjectCounters({ namespace, keyPrefix, timeoutMs: FLUSH_TIMEOUT_MS })
      },
    }
  },

  // Each isolate has limits, rules and statistics of its own.
  async memory(_config, _env, now) {
    const message = 'no store that isolates share: limits hold in each by itself'
    consoleLog('warn', { event: 'in_memory_store', message })
    return {
      limits: new MemoryStore(now),
      async openDocuments() {
        const { MemoryDocuments } = await import('../store/memory/memory-documents.ts')
        return new MemoryDocuments(now)
      },
      async openCounters() {
        const { MemoryCounters } = await import('../store/memory/memory-counters.ts')
        return new MemoryCounters(now)
      },
    }
  },
} satisfies Record<StoreKind, OpenBackend>

/** Opens a store of this kind, whose variables and bindings the configuration has checked. */
export function openBackend(kind: StoreKind, ...options: Parameters<OpenBackend>): Promise<Backend> {
  return BACKENDS[kind](...options)
}
