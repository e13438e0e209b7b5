import { PATIENT_MS, RedisStore, type RedisStoreOptions } from '../store/redis/redis-store.ts'
import { connectUpstash, type UpstashDatabase } from './upstash-client.ts'

export interface UpstashStoreOptions
  extends UpstashDatabase,
    Pick<RedisStoreOptions, 'algorithms' | 'moreLua' | 'timeoutMs'> {}

/** Limits shared by all isolates, over Upstash's REST interface, by a client that is safe on Workers. */
export function upstashStore({ url, token, algorithms, moreLua, timeoutMs }: UpstashStoreOptions): RedisStore {
  return new RedisStore({
    client: connectUpstash({ url, token }),
    // Of calls that hang, a request may have six.
    patientClient: connectUpstash({ url, token }, PATIENT_MS),
    algorithms,
    moreLua,
    timeoutMs,
    secrets: [token],
  })
}
