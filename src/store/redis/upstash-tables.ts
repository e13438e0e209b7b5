import type { CountersOptions } from '../backend.ts'
import { RedisCounters } from './counters/redis-counters.ts'
import { RedisDocuments } from './documents/redis-documents.ts'
import { connectUpstash, type UpstashDatabase } from './upstash-backend.ts'

export interface UpstashDocumentsOptions extends UpstashDatabase {
  readonly key: string
  /** Deadline of a call, in milliseconds. */
  readonly timeoutMs: number
}

/** A document that all isolates read. */
export function upstashDocuments({ url, token, key, timeoutMs }: UpstashDocumentsOptions): RedisDocuments {
  const client = connectUpstash({ url, token })
  return new RedisDocuments({ client, key, timeoutMs, secrets: [token] })
}

/** The counts of all isolates. */
export function upstashCounters({
  url,
  token,
  keyPrefix,
  timeoutMs,
}: UpstashDatabase & CountersOptions): RedisCounters {
  const client = connectUpstash({ url, token }, timeoutMs)
  return new RedisCounters({ client, keyPrefix, timeoutMs, secrets: [token] })
}
