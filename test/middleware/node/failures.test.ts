/** Policies that count failures, in front of servers of Node. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { sluice } from '../../../src/node.ts'

type Answer = (req: IncomingMessage, res: ServerResponse) => void

async function serverOf(answer: Answer) {
  const policies = [{ name: 'guesses', limits: '2/1h', by: 'ip', counts: 'failures' as const }]
  const middleware = sluice({ policies })
  const server = createServer((req, res) => middleware(req, res, () => answer(req, res)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close().closeAllConnections())
  const { port } = server.address() as AddressInfo
  return { port, call: () => fetch(`http://127.0.0.1:${port}/`, { method: 'POST' }) }
}

test('sluice() charges failures only, and tells of each', async () => {
  let status = 200
  const { call } = await serverOf((_req, res) => void res.writeHead(status).end())
  for (let i = 0; i < 4; i++) expect((await call()).status).toBe(200)
  status = 401
  expect((await call()).headers.get('RateLimit')).toBe('"guesses-1h";r=1;t=3600')
  expect((await call()).status).toBe(401)
  const refused = await call()
  expect([refused.status, await refused.json()]).toMatchObject([
    429,
    { detail: expect.stringMatching(/^Too many failed requests/) },
  ])
})

test('sluice() counts a failure whose client has gone before the answer', async () => {
  const arrived: ServerResponse[] = []
  const { port, call } = await serverOf((_req, res) => void arrived.push(res))
  for (let i = 0; i < 2; i++) {
    const socket = connect(port, '127.0.0.1')
    socket.write('POST / HTTP/1.1\r\nHost: api\r\nContent-Length: 0\r\n\r\n')
    await expect.poll(() => arrived.length).toBe(i + 1)
    const res = arrived[i] as ServerResponse
    const closed = once(res, 'close')
    socket.resetAndDestroy()
    await closed
    res.writeHead(401).end()
  }
  expect((await call()).status).toBe(429)
})
