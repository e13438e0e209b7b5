/** Opens what Sluice keeps in the database that the command is connected to. */
import type { Backend } from '../../core/store/backend.ts'
import { LUA } from '../../core/store/redis/more-lua.ts'
import { RedisStore } from '../../core/store/redis/redis-store.ts'
import type { Config } from '../../http/config/load-config.ts'
import { CALL_TIMEOUT_MS, type Connection } from './connection.ts'

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
