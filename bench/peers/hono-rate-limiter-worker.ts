/**
 * Hono with hono-rate-limiter and its Redis store. It loads its scripts when it is made, which a Worker may do only
 * within a request: here within the first of an isolate, not again in each.
 */
import { Redis } from '@upstash/redis/cloudflare'
import { Hono, type MiddlewareHandler } from 'hono'
import { RedisStore, rateLimiter } from 'hono-rate-limiter'
import { type Bindings, forward, readLimits } from '../gateway/compared-worker.ts'

let limiter: MiddlewareHandler | undefined

function start(env: Bindings): MiddlewareHandler {
  const client = new Redis({ url: env.UPSTASH_REDIS_REST_URL, token: env.UPSTASH_REDIS_REST_TOKEN })
  const [limit] = readLimits(env.LIMITS)
  return rateLimiter({
    ...limit,
    keyGenerator: (c) => c.req.header('Authorization') ?? 'anonymous',
    store: new RedisStore({ client }),
  })
}

const app = new Hono<{ Bindings: Bindings }>()
app.use((c, next) => {
  limiter ??= start(c.env)
  return limiter(c, next)
})
app.all('*', (c) => forward(c.req.raw, c.env.UPSTREAM_URL))
export default app
