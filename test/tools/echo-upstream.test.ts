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

test.each([
  ['/status/401', 401, '"url": "/status/401"'],
  ['/status/503?a', 503, '"url": "/status/503?a"'],
  ['/status/9', 200, '"url": "/status/9"'],
  ['/delay/0.01', 200, '"url": "/delay/0.01"'],
  ['/bytes/3', 200, /^xxx$/],
  ['/bytes/2k', 200, /^x{2048}$/],
  ['/bytes/1x', 200, '"url": "/bytes/1x"'],
])('startEchoUpstream() answers as %s asks it to', async (path, status, body) => {
  const response = await fetch(upstream.url + path)
  expect(response.status).toBe(status)
  expect(await response.text()).toEqual(
    typeof body === 'string' ? expect.stringContaining(body) : expect.stringMatching(body),
  )
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
