import { Redis } from '@upstash/redis/cloudflare'
import { UPSTASH_OPTIONS, upstashClient } from '../store/redis/clients/upstash.ts'
import { RedisCounters } from '../store/redis/counters/redis-counters.ts'
import type { UpstashDatabase } from './upstash-store.ts'

export interface UpstashCountersOptions extends UpstashDatabase {
  /** First part of every key. */
  readonly keyPrefix: string
  /** Deadline of a call, in milliseconds. */
  readonly timeoutMs: number
}

/** What all isolates have counted, over Upstash's REST interface. */
export function upstashCounters({ url, token, keyPrefix, timeoutMs }: UpstashCountersOptions): RedisCounters {
  // No request waits for a flush, and one that hangs must not do so for ever.
  const signal = () => AbortSignal.timeout(timeoutMs)
  const client = upstashClient(new Redis({ url, token, ...UPSTASH_OPTIONS, signal }))
  return new RedisCounters({ client, keyPrefix, timeoutMs, secrets: [token] })
}
