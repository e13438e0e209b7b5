/** Opens the store of a configuration, by its kind. */
import { consoleLog } from '../../core/runtime/log.ts'
import type { Backend } from '../../core/store/backend.ts'
import type { ObjectNamespace } from '../../core/store/durable-object/objects.ts'
import { openMemoryBackend } from '../../core/store/memory/memory-store.ts'
import type { UpstashDatabase } from '../../core/store/redis/upstash-backend.ts'
import { type Config, type Environment, isBinding } from '../../http/config/load-config.ts'
import { STORE_KINDS, type StoreKind } from '../../http/config/store-kinds.ts'

type OpenBackend = (config: Config, env: Environment, now: () => number) => Promise<Backend>

export const openBackend: Readonly<Record<StoreKind, OpenBackend>> = {
  async redis({ redis, shards, policies, rules, decideToken, storeTimeoutMs: timeoutMs }, _env, now) {
    if (!redis) throw new Error('a store over Redis without Redis')
    const algorithms = new Set(policies.map(({ algorithm }) => algorithm))
    // Runtime rules and questions for decisions may use any algorithm.
    const isPlain =
      !rules && !decideToken && policies.every(({ algorithm, penalty }) => algorithm === 'sliding-window' && !penalty)
    const moreLua = isPlain ? undefined : (await import('../../core/store/redis/more-lua.ts')).LUA
    const { openUpstashBackend } = await import('../../core/store/redis/upstash-backend.ts')
    const open = (database: UpstashDatabase) => openUpstashBackend({ ...database, algorithms, moreLua, timeoutMs })
    if (!shards) return open(redis)
    const { joinBackends } = await import('../../core/engine/join-backends.ts')
    return joinBackends(
      shards.map((shard) => ({ ...shard, backend: open(shard) })),
      { now, timeoutMs },
    )
  },

  async 'durable-object'({ storeTimeoutMs }, env) {
    const { name, method } = STORE_KINDS['durable-object'].binding
    const namespace = env[name]
    if (!isBinding<ObjectNamespace>(namespace, method)) throw new Error('a store in objects without their binding')
    const { openObjectBackend } = await import('../../core/store/durable-object/durable-object-store.ts')
    return openObjectBackend(namespace, storeTimeoutMs)
  },

  async memory(_config, _env, now) {
    const message = 'no shared store: each isolate enforces limits by itself'
    consoleLog('warn', { event: 'in_memory_store', message })
    return openMemoryBackend(now)
  },
}
