/** A Hono app that only proxies: the limit of what is possible. */
import { Hono } from 'hono'
import { forward } from './compared-worker.ts'

const app = new Hono<{ Bindings: { UPSTREAM_URL: string } }>()
app.all('*', (c) => forward(c.req.raw, c.env.UPSTREAM_URL))
export default app
