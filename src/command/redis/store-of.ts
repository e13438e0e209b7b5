import type { Config } from '../../config/load-config.ts'
import { LUA } from '../../store/redis/more-lua.ts'
import { RedisStore } from '../../store/redis/redis-store.ts'
import { CALL_TIMEOUT_MS, type Connection } from './connection.ts'

/** What the Worker's policies have counted there. */
export function storeOf({ client, secrets }: Pick<Connection, 'client' | 'secrets'>, config: Config): RedisStore {
  const algorithms = new Set(config.policies.map(({ algorithm }) => algorithm))
  return new RedisStore({ client, secrets, algorithms, moreLua: LUA, timeoutMs: CALL_TIMEOUT_MS })
}
