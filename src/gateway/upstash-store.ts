import { Redis } from '@upstash/redis/cloudflare'
import { UPSTASH_OPTIONS, upstashClient } from '../store/redis/clients/upstash.ts'
import { PATIENT_MS, RedisStore, type RedisStoreOptions } from '../store/redis/redis-store.ts'

export interface UpstashDatabase {
  /** Upstash's REST endpoint. */
  readonly url: string
  readonly token: string
}

export interface UpstashStoreOptions
  extends UpstashDatabase,
    Pick<RedisStoreOptions, 'algorithms' | 'moreLua' | 'timeoutMs'> {}

/** Limits shared by all isolates, over Upstash's REST interface, by a client that is safe on Workers. */
export function upstashStore({ url, token, algorithms, moreLua, timeoutMs }: UpstashStoreOptions): RedisStore {
  const options = { url, token, ...UPSTASH_OPTIONS }
  // It ends calls at their deadline: of those that hang, a request may have six. That costs a signal for each.
  const signal = () => AbortSignal.timeout(PATIENT_MS)
  return new RedisStore({
    client: upstashClient(new Redis(options)),
    patientClient: upstashClient(new Redis({ ...options, signal })),
    algorithms,
    moreLua,
    timeoutMs,
    secrets: [token],
  })
}
