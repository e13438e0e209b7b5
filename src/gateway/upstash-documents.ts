import { Redis } from '@upstash/redis/cloudflare'
import { UPSTASH_OPTIONS, upstashClient } from '../store/redis/clients/upstash.ts'
import { RedisDocuments } from '../store/redis/documents/redis-documents.ts'
import type { UpstashDatabase } from './upstash-store.ts'

export interface UpstashDocumentsOptions extends UpstashDatabase {
  readonly key: string
  /** Deadline of a call, in milliseconds. */
  readonly timeoutMs: number
}

/** A document that all isolates read, over Upstash's REST interface. */
export function upstashDocuments({ url, token, key, timeoutMs }: UpstashDocumentsOptions): RedisDocuments {
  const client = upstashClient(new Redis({ url, token, ...UPSTASH_OPTIONS }))
  return new RedisDocuments({ client, key, timeoutMs, secrets: [token] })
}
