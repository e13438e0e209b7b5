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

test('sluice() charges the messages of a WebSocket in bytes', async () => {
  const app = new Hono()
  const policies = [{ name: 'bytes', limits: '1000/1h', algorithm: 'quota', actual_cost: 'bytes' }] as const
  app.use(sluice({ policies, log: () => {} }))
  app.get(
    '/',
    upgradeWebSocket(() => ({ onMessage: (_, socket) => socket.send('\u00fc'.repeat(100)) })),
  )
  const { webSocket } = await app.request('/', UPGRADE)
  webSocket?.accept()
  const received = new Promise((resolve) => webSocket?.addEventListener('message', resolve))
  webSocket?.send('hello')
  await received
  webSocket?.close(1000)
  const ask = async () =>
    (await app.request('/none', { headers: { Authorization: 'Bearer X' } })).headers.get('RateLimit')
  // The answer had 200 bytes; a 404 of Hono has 13, and costs one until it has ended.
  await expect.poll(ask).toMatch(/"bytes-1h";r=(?:7[0-9]{2});/)
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
