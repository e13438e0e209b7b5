/** Calls an API as fast as it allows: `node client.js [URL] [calls]`. With REDIS_URL, together with all that do the same. */
import { createClient } from '@redis/client'
import { createLimiter, redisStore } from 'sluice'
import { outbound } from 'sluice/outbound'

const [url = 'http://127.0.0.1:8080/', calls = '60'] = process.argv.slice(2)
const { REDIS_URL } = process.env

const redis = REDIS_URL ? createClient({ url: REDIS_URL }) : undefined
// Without await: the client starts while Redis is down.
redis?.connect()

// Alone, a process learns of the limits from the answers. Processes that share them have to know them; half a second more
// is for calls that take different times to arrive.
const store = redis && redisStore(redis, { timeoutMs: 5_000 })
const limiter = store && createLimiter({ store, limits: '20/1500ms, 45/3500ms' })
const api = outbound(fetch, {
  ...(limiter && { limiter, resource: () => 'partner' }),
  // A refusal that comes all the same is shown.
  retry: { attempts: 1 },
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
