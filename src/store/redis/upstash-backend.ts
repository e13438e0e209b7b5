import { Redis } from '@upstash/redis/cloudflare'
import type { Backend } from '../backend.ts'
import type { RedisClient } from './client.ts'
import { UPSTASH_OPTIONS, upstashClient } from './client.ts'
import { BACKGROUND_TIMEOUT_MS, RedisStore, type RedisStoreOptions } from './redis-store.ts'

export interface UpstashDatabase {
  /** Upstash's REST endpoint. */
  readonly url: string
  readonly token: string
}

export interface UpstashStoreOptions
  extends UpstashDatabase,
    Pick<RedisStoreOptions, 'algorithms' | 'moreLua' | 'timeoutMs'> {}

/** Everything in one database, over Upstash's REST interface, by clients that are safe on Workers. */
export function openUpstashBackend(options: UpstashStoreOptions): Backend {
  const { url, token, algorithms, moreLua, timeoutMs } = options
  return {
    limits: new RedisStore({
      client: connectUpstash({ url, token }),
      // Of calls that hang, a request may have six.
      patientClient: connectUpstash({ url, token }, BACKGROUND_TIMEOUT_MS),
      algorithms,
      moreLua,
      timeoutMs,
      secrets: [token],
    }),
    async documents(key) {
      const { RedisDocuments } = await import('./documents/redis-documents.ts')
      return new RedisDocuments({ client: connectUpstash({ url, token }), key, timeoutMs, secrets: [token] })
    },
    async counters({ keyPrefix, timeoutMs }) {
      const { RedisCounters } = await import('./counters/redis-counters.ts')
      const client = connectUpstash({ url, token }, timeoutMs)
      return new RedisCounters({ client, keyPrefix, timeoutMs, secrets: [token] })
    },
  }
}

/**
 * @param timeoutMs of a call that no request waits for, so that it does not hang for ever. It costs a signal for each.
 */
export function connectUpstash({ url, token }: UpstashDatabase, timeoutMs?: number): RedisClient {
  const signal = timeoutMs === undefined ? {} : { signal: () => AbortSignal.timeout(timeoutMs) }
  return upstashClient(new Redis({ url, token, ...UPSTASH_OPTIONS, ...signal }))
}
