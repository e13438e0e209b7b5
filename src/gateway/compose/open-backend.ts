/** Opens the store of a configuration, by its kind. */
import type { Backend } from '../../core/store/backend.ts'
import type { ObjectNamespace } from '../../core/store/durable-object/objects.ts'
import { openMemoryBackend } from '../../core/store/memory/memory-store.ts'
import type { UpstashDatabase } from '../../core/store/redis/upstash-backend.ts'
import { isBinding } from '../../http/config/load-config.ts'
import { STORE_KINDS, type StoreKind } from '../../http/config/store-kinds.ts'
import type { Setting } from './setting.ts'

type OpenBackend = (setting: Setting) => Promise<Backend>

export const openBackend: Readonly<Record<StoreKind, OpenBackend>> = {
  async redis({ config, clocks: { now, readLatestMs = now }, host: { connect } }) {
    const { redis, shards, policies, rules, decideToken, storeTimeoutMs: timeoutMs } = config
    if (!redis) throw new Error('a store over Redis without Redis')
    const algorithms = new Set(policies.map(({ algorithm }) => algorithm))
    // Runtime rules and questions for decisions may use any algorithm.
    const isPlain =
      !rules && !decideToken && policies.every(({ algorithm, penalty }) => algorithm === 'sliding-window' && !penalty)
    const moreLua = isPlain ? undefined : (await import('../../core/store/redis/more-lua.ts')).LUA
    const { openUpstashBackend } = await import('../../core/store/redis/upstash-backend.ts')
    const open = (database: UpstashDatabase) =>
      openUpstashBackend({ ...database, algorithms, moreLua, timeoutMs, connect })
    if (!shards) return open(redis)
    const { joinBackends } = await import('../../core/engine/join-backends.ts')
    return joinBackends(
      shards.map((shard) => ({ ...shard, backend: open(shard) })),
      { now: readLatestMs, timeoutMs },
    )
  },

  async 'durable-object'({ env, config: { storeTimeoutMs } }) {
    const { name, method } = STORE_KINDS['durable-object'].binding
    const namespace = env[name]
    if (!isBinding<ObjectNamespace>(namespace, method)) throw new Error('a store in objects without their binding')
    const { openObjectBackend } = await import('../../core/store/durable-object/durable-object-store.ts')
    return openObjectBackend(namespace, storeTimeoutMs)
  },

  async memory({ clocks: { now, readLatestMs = now }, log }) {
    const message = 'no shared store: each isolate enforces limits by itself'
    log('warn', { event: 'in_memory_store', message })
    return openMemoryBackend(readLatestMs)
  },
}
