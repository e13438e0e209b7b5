/** Hono with @upstash/ratelimit, as its documentation shows it: made once an isolate, default options. */
import { Ratelimit } from '@upstash/ratelimit'
import { Redis } from '@upstash/redis/cloudflare'
import { Hono } from 'hono'
import { type Bindings, forward, readLimits } from '../gateway/compared-worker.ts'

let limiters: Ratelimit[] | undefined

/** One for each limit: it has no notion of several. */
function start(env: Bindings): Ratelimit[] {
  const redis = new Redis({ url: env.UPSTASH_REDIS_REST_URL, token: env.UPSTASH_REDIS_REST_TOKEN })
  return readLimits(env.LIMITS).map(({ limit, windowMs }) => {
    const algorithm =
      env.ALGORITHM === 'tokenBucket'
        ? Ratelimit.tokenBucket(limit, `${windowMs} ms`, limit)
        : Ratelimit[env.ALGORITHM ?? 'slidingWindow'](limit, `${windowMs} ms`)
    return new Ratelimit({ redis, limiter: algorithm, prefix: `@upstash/ratelimit:${windowMs}` })
  })
}

const app = new Hono<{ Bindings: Bindings }>()
app.use(async (c, next) => {
  limiters ??= start(c.env)
  for (const limiter of limiters) {
    const { success, limit, remaining, reset } = await limiter.limit(c.req.header('Authorization') ?? 'anonymous')
    c.header('X-RateLimit-Limit', `${limit}`)
    c.header('X-RateLimit-Remaining', `${remaining}`)
    c.header('X-RateLimit-Reset', `${reset}`)
    if (!success) return c.text('Too many requests', 429)
  }
  return next()
})
app.all('*', (c) => forward(c.req.raw, c.env.UPSTREAM_URL))
export default app
