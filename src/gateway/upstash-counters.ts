import { RedisCounters } from '../store/redis/counters/redis-counters.ts'
import { connectUpstash, type UpstashDatabase } from './upstash-client.ts'

export interface UpstashCountersOptions extends UpstashDatabase {
  /** First part of every key. */
  readonly keyPrefix: string
  /** Deadline of a call, in milliseconds. */
  readonly timeoutMs: number
}

/** What all isolates have counted, over Upstash's REST interface. */
export function upstashCounters({ url, token, keyPrefix, timeoutMs }: UpstashCountersOptions): RedisCounters {
  const client = connectUpstash({ url, token }, timeoutMs)
  return new RedisCounters({ client, keyPrefix, timeoutMs, secrets: [token] })
}
