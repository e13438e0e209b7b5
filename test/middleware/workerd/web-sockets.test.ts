/** A WebSocket that a Hono app itself serves on Workers keeps its slot until its client has closed it. */
import { Hono } from 'hono'
import { upgradeWebSocket } from 'hono/cloudflare-workers'
import { expect, test } from 'vitest'
import { sluice } from '../../../src/hono.ts'

const UPGRADE = { headers: { Authorization: 'Bearer X', Upgrade: 'websocket' } }

function echoing(): Hono {
  const app = new Hono()
  const policies = [{ name: 'sockets', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }] as const
  app.use(sluice({ policies, log: () => {} }))
  return app.get(
    '/echo',
    upgradeWebSocket(() => ({ onMessage: ({ data }, socket) => socket.send(`heard ${String(data)}`) })),
  )
}

test('sluice() holds the slot of a WebSocket until its client closes it', async () => {
  const app = echoing()
  const { status, webSocket, headers } = await app.request('/echo', UPGRADE)
  expect([status, headers.get('RateLimit')]).toEqual([101, '"sockets";r=0'])
  webSocket?.accept()
  const received = new Promise((resolve) => webSocket?.addEventListener('message', ({ data }) => resolve(data)))
  webSocket?.send('hello')
  expect(await received).toBe('heard hello')
  expect((await app.request('/echo', UPGRADE)).status).toBe(429)
  webSocket?.close(1000)
  await expect.poll(async () => (await app.request('/nothing', UPGRADE)).status).toBe(404)
})

test('sluice() adds its fields to an upgrade without a slot', async () => {
  const app = new Hono()
  app.use(sluice({ limits: '5/1m', log: () => {} }))
  app.get(
    '/',
    upgradeWebSocket(() => ({})),
  )
  const { status, webSocket, headers } = await app.request('/', UPGRADE)
  webSocket?.accept()
  expect([status, headers.get('RateLimit')]).toEqual([101, '"default-1m";r=4;t=60'])
})
