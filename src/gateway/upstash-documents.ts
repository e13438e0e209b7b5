import { RedisDocuments } from '../store/redis/documents/redis-documents.ts'
import { connectUpstash, type UpstashDatabase } from './upstash-client.ts'

export interface UpstashDocumentsOptions extends UpstashDatabase {
  readonly key: string
  /** Deadline of a call, in milliseconds. */
  readonly timeoutMs: number
}

/** A document that all isolates read, over Upstash's REST interface. */
export function upstashDocuments({ url, token, key, timeoutMs }: UpstashDocumentsOptions): RedisDocuments {
  const client = connectUpstash({ url, token })
  return new RedisDocuments({ client, key, timeoutMs, secrets: [token] })
}
