import { Hono } from 'hono'
import { type RateLimitVariables, sluice } from 'sluice/hono'

/** Statuses of three requests, of which two are of one caller, and of one that is ambiguous; what is told of the first. */
export async function use(): Promise<readonly unknown[]> {
  const app = new Hono<{ Variables: RateLimitVariables }>()
  const login = { name: 'login', limits: '5/1m', match: '* /login' }
  app.use(sluice({ limits: '1/1m', policies: [login], identify: (c) => c.req.query('user'), log: () => {} }))
  app.get('/', (c) => c.json(c.get('rateLimit').limits.map(({ name }) => name)))
  const [first, ...others] = [
    await app.request('/?user=a'),
    await app.request('/?user=a'),
    await app.request('/?user=b'),
    // Bundlers may leave out a call whose result nobody uses, such as one that throws for this.
    await app.request('/%C0%AE%C0%AE/login?user=c'),
  ]
  return [first.status, ...others.map(({ status }) => status), await first.json()]
}
