import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { Deadlines } from '../../src/core/runtime/call-context.ts'

test('Deadlines#waitWithin() takes what arrived in time, although a computation held up both timers and sockets', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const accepted = once(server, 'connection')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [peer] = (await accepted) as [Socket]
  // Timers run next, and sockets are read after them.
  await new Promise(setImmediate)
  peer.write('arrived')
  const waiting = new Deadlines().waitWithin(1, once(client.setEncoding('utf8'), 'data'))
  const startedAtMs = Date.now()
  while (Date.now() < startedAtMs + 100);
  expect(await waiting).toEqual(['arrived'])
  client.destroy()
  peer.destroy()
  server.close()
})
