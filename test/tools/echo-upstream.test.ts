import { once } from 'node:events'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { startEchoUpstream } from '../../tools/echo-upstream.ts'
import type { LocalServer } from '../../tools/local-server.ts'

let upstream: LocalServer

beforeEach(async () => {
  upstream = await startEchoUpstream()
  onTestFinished(() => upstream.stop())
})

async function openWebSocket(): Promise<WebSocket> {
  const socket = new WebSocket(upstream.url)
  await once(socket, 'open')
  return socket
}

test('startEchoUpstream() answers with the request', async () => {
  const response = await fetch(`${upstream.url}/a%2Fb?c=1&c=2`, { method: 'PUT', headers: { 'x-d': 'e' }, body: 'ä' })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('application/json')
  expect(await response.json()).toMatchObject({
    method: 'PUT',
    url: '/a%2Fb?c=1&c=2',
    headers: { 'x-d': 'e', host: new URL(upstream.url).host },
    body: 'ä',
  })
})

test('startEchoUpstream() sends WebSocket messages back as they came', async () => {
  const socket = await openWebSocket()
  onTestFinished(() => socket.terminate())
  for (const [sent, isBinary] of [
    ['text', false],
    [Buffer.from([0, 255]), true],
  ] as const) {
    socket.send(sent)
    const [data, binary] = await once(socket, 'message')
    expect(data).toEqual(Buffer.from(sent))
    expect(binary).toBe(isBinary)
  }
})

test('startEchoUpstream() throws if the port is taken', async () => {
  const port = Number(new URL(upstream.url).port)
  await expect(startEchoUpstream({ port })).rejects.toThrow('EADDRINUSE')
})

test('stop() cuts connections, frees the port and may be repeated', async () => {
  const closed = once(await openWebSocket(), 'close')
  await upstream.stop()
  await upstream.stop()
  await closed
  const next = await startEchoUpstream({ port: Number(new URL(upstream.url).port) })
  await next.stop()
})
