import { Redis } from '@upstash/redis/cloudflare'
import type { RedisClient } from '../store/redis/client.ts'
import { UPSTASH_OPTIONS, upstashClient } from '../store/redis/clients/upstash.ts'

export interface UpstashDatabase {
  /** Upstash's REST endpoint. */
  readonly url: string
  readonly token: string
}

/**
 * A client of Upstash's REST interface that is safe on Workers.
 * @param timeoutMs of a call that no request waits for, so that it does not hang for ever. It costs a signal for each.
 */
export function connectUpstash({ url, token }: UpstashDatabase, timeoutMs?: number): RedisClient {
  const signal = timeoutMs === undefined ? {} : { signal: () => AbortSignal.timeout(timeoutMs) }
  return upstashClient(new Redis({ url, token, ...UPSTASH_OPTIONS, ...signal }))
}
