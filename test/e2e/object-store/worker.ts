/** An app on Workers whose limits are in Durable Objects: the middleware at `/`, the library at `/library`. */
import { Hono } from 'hono'
import { sluice } from '../../../src/hono.ts'
import { createLimiter } from '../../../src/index.ts'
import { type ObjectNamespace, objectStore } from '../../../src/objects.ts'

export { LimitObject } from '../../../src/objects.ts'

function createApp(namespace: ObjectNamespace): Hono {
  // A slow machine is no reason to decide without them.
  const store = objectStore(namespace, { timeoutMs: 30_000 })
  const policies = [
    { name: 'all', limits: '5/1h', by: 'global' },
    { name: 'slots', limits: 1, algorithm: 'concurrency' as const, match: '/slow' },
  ]
  const limiter = createLimiter({ limits: '3/1h', store, keyPrefix: 'library' })
  const app = new Hono()
  app.get('/library', async (c) => c.json(await limiter.take(c.req.query('user') ?? '-')))
  app.use(sluice({ limits: '2/1h', policies, by: 'token', store }))
  app.get('/slow', async (c) => c.text('slow'))
  app.get('*', (c) => c.text('hello'))
  return app
}

let app: Hono | undefined

export default {
  fetch(request: Request, env: { readonly LIMITS: ObjectNamespace }, context: ExecutionContext) {
    app ??= createApp(env.LIMITS)
    return app.fetch(request, env, context)
  },
}
