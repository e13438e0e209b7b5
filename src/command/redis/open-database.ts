/** Opens what Sluice keeps in the databases that the command is connected to. */
import { joinBackends } from '../../core/engine/join-backends.ts'
import type { Backend } from '../../core/store/backend.ts'
import { LUA } from '../../core/store/redis/more-lua.ts'
import { RedisStore } from '../../core/store/redis/redis-store.ts'
import type { Config } from '../../http/config/load-config.ts'
import { CALL_TIMEOUT_MS, type Connection } from './connection.ts'

/** @param connections at least one */
export function openDatabases(
  connections: readonly Connection[],
  config: Pick<Config, 'policies'>,
  timeoutMs = CALL_TIMEOUT_MS,
): Backend {
  const shards = connections.map(({ shard, ...connection }) => ({
    ...{ name: connection.name, ...shard },
    backend: openDatabase(connection, config, timeoutMs),
  }))
  const [only, ...others] = shards
  return only && others.length === 0 ? only.backend : joinBackends(shards, { timeoutMs })
}

export function openDatabase(
  { client, secrets }: Pick<Connection, 'client' | 'secrets'>,
  { policies }: Pick<Config, 'policies'>,
  timeoutMs = CALL_TIMEOUT_MS,
): Backend {
  const algorithms = policies.map(({ algorithm }) => algorithm)
  return {
    limits: new RedisStore({ client, secrets, algorithms, moreLua: LUA, timeoutMs }),
    async documents(key) {
      const { RedisDocuments } = await import('../../core/store/redis/documents/redis-documents.ts')
      return new RedisDocuments({ client, secrets, key, timeoutMs })
    },
    async counters(options) {
      const { RedisCounters } = await import('../../core/store/redis/counters/redis-counters.ts')
      return new RedisCounters({ client, secrets, ...options })
    },
  }
}
