/** Calls an API as fast as it allows: `node client.js [URL] [calls]`. With REDIS_URL, together with all that do the same. */
import { createClient } from '@redis/client'
import { redisStore } from 'sluice'
import { outbound } from 'sluice/outbound'

const [url = 'http://127.0.0.1:8080/', calls = '60'] = process.argv.slice(2)
const { REDIS_URL } = process.env

const redis = REDIS_URL ? createClient({ url: REDIS_URL }) : undefined
// Without await: the client starts while Redis is down.
redis?.connect()

const api = outbound(fetch, {
  ...(redis && {
    shared: {
      store: redisStore(redis, { timeoutMs: 5_000 }),
      notes: {
        read: (key) => redis.get(key),
        write: (key, text, ttlMs) => redis.set(key, text, { PX: ttlMs }),
      },
    },
  }),
  // A refusal that comes all the same is shown.
  retries: 0,
})

const statuses = await Promise.all(
  Array.from({ length: Number(calls) }, async () => {
    const response = await api(url)
    await response.body?.cancel()
    return response.status
  }),
)
for (const status of new Set(statuses)) {
  console.log(`${status}: ${statuses.filter((other) => other === status).length}`)
}
await redis?.close()
