import { Hono } from 'hono'
import { type RateLimitVariables, sluice } from 'sluice/hono'

/** Statuses of three requests, of which two are of one caller, and what is told of the first. */
export async function use(): Promise<readonly unknown[]> {
  const app = new Hono<{ Variables: RateLimitVariables }>()
  app.use(sluice({ limits: '1/1m', identify: (c) => c.req.query('user'), log: () => {} }))
  app.get('/', (c) => c.json(c.get('rateLimit').tiers.map(({ name }) => name)))
  const [first, ...others] = [
    await app.request('/?user=a'),
    await app.request('/?user=a'),
    await app.request('/?user=b'),
  ]
  return [first.status, ...others.map(({ status }) => status), await first.json()]
}
