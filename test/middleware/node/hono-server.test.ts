/** The middleware for Hono behind @hono/node-server: what only a connection can tell. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { afterEach, expect, test } from 'vitest'
import { type SluiceOptions, sluice } from '../../../src/hono.ts'
import { begin, send, sendInTurn } from '../../support/http-client.ts'

const ended: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ended.splice(0)) await end()
})

async function serving(options: SluiceOptions, route: (app: Hono) => unknown): Promise<URL> {
  const app = new Hono()
  app.use(sluice({ log: () => {}, ...options }))
  route(app)
  const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 })
  ended.push(() => server.close())
  await once(server, 'listening')
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
}

const ok = (app: Hono) => app.all('*', (c) => c.text('ok'))

test('sluice() counts by the address of the connection, whatever fields say', async () => {
  const server = await serving({ limits: '2/1h', by: 'ip' }, ok)
  const claims = [
    {},
    { 'CF-Connecting-IP': '192.0.2.1' },
    { 'X-Forwarded-For': '192.0.2.2' },
    { 'X-Real-IP': '192.0.2.3' },
  ]
  const requests = claims.map((headers) => ({ headers }))
  expect(await sendInTurn(server, requests)).toEqual([200, 200, 429, 429])
})

test('sluice() gives a slot back when the body has ended, and when the client has gone', async () => {
  const policies = [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h', by: 'ip' }] as const
  let end = () => {}
  const server = await serving({ policies }, (app) => {
    app.get('/quick', (c) => c.text('ok'))
    app.get('/slow', (c) => {
      const stream = new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('begun'))
          end = () => controller.close()
        },
      })
      return c.body(stream)
    })
  })
  const quick = async () => (await send(server, { path: '/quick' })).status
  const slow = () => begin(server, { path: '/slow' })

  const first = await slow()
  expect(await quick()).toBe(429)
  end()
  first.response.resume()
  await once(first.response, 'end')
  await expect.poll(quick).toBe(200)

  const second = await slow()
  expect(await quick()).toBe(429)
  second.client.destroy()
  await expect.poll(quick).toBe(200)
})

test('sluice() reads paths as the router of the app does', async () => {
  const policies = [
    { name: 'all', limits: '100/1h', by: 'ip' },
    { name: 'login', limits: '1/1h', by: 'ip', match: 'POST /login' },
  ] as const
  const server = await serving({ policies }, (app) => {
    app.post('/login', (c) => c.text('in'))
    app.all('*', (c) => c.text('other'))
  })
  let served = 0
  const targets = ['/login', '/./login', '/x/../login', '/%6Cogin', '/x/%2e%2e/login', '//login', '/login?_method=GET']
  for (const path of [...targets, '/login/', '/login%2F', '/x\\..\\login', '/login;a', '/login%00', '/%2e/login#x']) {
    const { status, body } = await send(server, { method: 'POST', path }).catch(() => ({ status: 0, body: '' }))
    if (status === 200 && String(body) === 'in') served++
  }
  expect(served).toBe(1)
})
