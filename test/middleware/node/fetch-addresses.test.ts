/** What platforms other than Workers tell of the address of a caller. */
import { Hono } from 'hono'
import { expect, test } from 'vitest'
import { type LimitOptions, limit } from '../../../src/fetch.ts'
import { sluice } from '../../../src/hono.ts'

type Options = Partial<LimitOptions<Request, unknown[]>>

/** Statuses of requests of one limit by address. */
async function statuses(calls: readonly (readonly [Request, ...unknown[]])[], options: Options = {}) {
  const limited = limit((_request: Request, ..._rest: unknown[]) => new Response('ok'), {
    limits: '1/1h',
    by: 'ip',
    log: () => {},
    ...options,
  })
  const seen: number[] = []
  for (const args of calls) seen.push((await limited(...args)).status)
  return seen
}

const from = (headers: Record<string, string> = {}) => new Request('https://app.example/', { headers }) as Request
const bun = (address: string) => ({ requestIP: () => ({ address, port: 1 }) })
const deno = (hostname: string) => ({ remoteAddr: { transport: 'tcp', hostname, port: 1 } })

test('the server of Bun and the second argument of Deno give it, whatever fields say', async () => {
  for (const platform of [bun, deno]) {
    const claim = from({ 'X-Forwarded-For': '192.0.2.9', 'CF-Connecting-IP': '192.0.2.9' })
    const calls = [
      [from(), platform('192.0.2.1')],
      [claim, platform('192.0.2.1')],
      [from(), platform('192.0.2.2')],
    ] as const
    expect(await statuses(calls)).toEqual([200, 429, 200])
  }
})

test('they give it to sluice() of Hono, too', async () => {
  const served = (address: string) => ({ server: bun(address) })
  for (const platform of [bun, served, deno]) {
    const app = new Hono().use(sluice({ limits: '1/1h', by: 'ip', log: () => {} })).all('*', (c) => c.text('ok'))
    const status = async (address: string) => (await app.fetch(from(), platform(address))).status
    expect([await status('192.0.2.1'), await status('192.0.2.1'), await status('192.0.2.2')]).toEqual([200, 429, 200])
  }
})

test('with trustProxy, X-Forwarded-For or a function gives it', async () => {
  const proxied = (hops: string) => [from({ 'X-Forwarded-For': hops }), bun('10.0.0.1')] as const
  const calls = [proxied('192.0.2.1'), proxied('192.0.2.7, 192.0.2.1'), proxied('192.0.2.1, 192.0.2.2')]
  expect(await statuses(calls, { trustProxy: 1 })).toEqual([200, 429, 200])
  const netlify = (ip: string) => [from(), { ip }] as const
  const trustProxy: Options['trustProxy'] = (_, context) => (context as { ip: string }).ip
  const [a, b] = [netlify('192.0.2.1'), netlify('192.0.2.2')]
  expect(await statuses([a, a, b], { trustProxy })).toEqual([200, 429, 200])
})

test('where nothing gives it, all callers are one, which the log says once', async () => {
  const events: unknown[] = []
  const log: Options['log'] = (_, { event }) => events.push(event)
  const calls = [[from()], [from(), null, 'text', { ip: '192.0.2.1' }], [from({ 'X-Forwarded-For': '192.0.2.2' })]]
  expect(await statuses(calls as [Request][], { log })).toEqual([200, 429, 429])
  expect(events.filter((event) => event === 'unknown_address')).toHaveLength(1)
})
