/** Opens a database at Upstash, over REST. */
import { Redis } from '@upstash/redis/cloudflare'
import type { Backend } from '../backend.ts'
import { adaptUpstash, type RedisClient, UPSTASH_OPTIONS } from './client.ts'
import { BACKGROUND_TIMEOUT_MS, RedisStore, type RedisStoreParts } from './redis-store.ts'

export interface UpstashDatabase {
  readonly url: string
  readonly token: string
}

/** @param timeoutMs ends calls that no request waits for, at the cost of a signal for each */
export type Connect = (database: UpstashDatabase, timeoutMs?: number) => RedisClient

export interface UpstashStoreOptions
  extends UpstashDatabase,
    Pick<RedisStoreParts, 'algorithms' | 'moreLua' | 'timeoutMs'> {
  /** Default: `connectUpstash`. */
  readonly connect?: Connect | undefined
}

export function openUpstashBackend(options: UpstashStoreOptions): Backend {
  const { url, token, algorithms, moreLua, timeoutMs, connect = connectUpstash } = options
  return {
    limits: new RedisStore({
      client: connect({ url, token }),
      // A Worker may have six open connections: hanging calls must end.
      patientClient: connect({ url, token }, BACKGROUND_TIMEOUT_MS),
      algorithms,
      moreLua,
      timeoutMs,
      secrets: [token],
    }),
    async documents(key) {
      const { RedisDocuments } = await import('./documents/redis-documents.ts')
      return new RedisDocuments({ client: connect({ url, token }), key, timeoutMs, secrets: [token] })
    },
    async counters({ keyPrefix, timeoutMs }) {
      const { RedisCounters } = await import('./counters/redis-counters.ts')
      const client = connect({ url, token }, timeoutMs)
      return new RedisCounters({ client, keyPrefix, timeoutMs, secrets: [token] })
    },
  }
}

export const connectUpstash: Connect = ({ url, token }, timeoutMs) => {
  const signal = timeoutMs === undefined ? {} : { signal: () => AbortSignal.timeout(timeoutMs) }
  return adaptUpstash(new Redis({ url, token, ...UPSTASH_OPTIONS, ...signal }))
}
