import { limit, readRateLimit } from 'sluice/fetch'

/** Statuses of three requests, of which two are of one caller, and of one that is ambiguous; what is told of the first. */
export async function use(): Promise<readonly unknown[]> {
  const login = { name: 'login', limits: '5/1m', match: '* /login' }
  const limited = limit(
    (request: Request, _context: { readonly user: string }) =>
      Response.json(readRateLimit(request)?.limits.map(({ name }) => name)),
    { limits: '1/1m', policies: [login], identify: (_, { user }) => user, log: () => {} },
  )
  const ask = (path: string, user: string) => limited(new Request(`https://app.example${path}`), { user })
  const [first, ...others] = [await ask('/', 'a'), await ask('/', 'a'), await ask('/', 'b')]
  const ambiguous = await ask('/%C0%AE%C0%AE/login', 'c')
  return [first.status, ...others.map(({ status }) => status), ambiguous.status, await first.json()]
}
