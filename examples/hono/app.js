import { serve } from '@hono/node-server'
import { createClient } from '@redis/client'
import { Hono } from 'hono'
import { redisStore } from 'sluice'
import { sluice } from 'sluice/hono'

const { REDIS_URL, PORT = '3000' } = process.env
const redis = REDIS_URL ? createClient({ url: REDIS_URL }) : undefined
// Without await: the app starts while Redis is down.
redis?.connect()

const app = new Hono()
app.use(sluice({ limits: '10/1s, 100/1m', by: 'token', store: redis ? redisStore(redis) : undefined }))
app.get('/', (c) => c.json({ left: c.get('rateLimit').limits.map(({ remaining }) => remaining) }))

serve({ fetch: app.fetch, port: Number(PORT) }, ({ port }) => console.log(`http://127.0.0.1:${port}`))
