import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, expect } from 'vitest'
import { StoreError } from '../../src/core/model/store.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { openUpstashBackend } from '../../src/core/store/redis/upstash-backend.ts'
import { createCharge, take } from '../support/charges.ts'
import { fuzz } from './fuzz.ts'

// What answers is not HTTP, or not all of it: a real connection, and real bytes.

const TIMEOUT_MS = 60

/** What becomes of a connection after its bytes. */
type End = 'close' | 'reset' | 'hang'
interface Answer {
  readonly bytes: Uint8Array
  readonly end: End
}

let answer: Answer
const sockets = new Set<Socket>()
const server = createServer((socket) => {
  sockets.add(socket)
  socket.once('close', () => sockets.delete(socket)).on('error', () => {})
  socket.once('data', () => {
    socket.write(answer.bytes)
    if (answer.end === 'close') socket.end()
    if (answer.end === 'reset') socket.resetAndDestroy()
  })
})

beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
afterAll(() => {
  server.close()
  for (const socket of sockets) socket.destroy()
})

const DECISION = { result: [1, 1_700_000_000_000, 4, 60_000, 0] }
const json = JSON.stringify(DECISION)
const head = fc.constantFrom(
  ...['HTTP/1.1 200 OK\r\n', 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n', 'HTTP/1.1 502 Bad Gateway\r\n'],
  ...['HTTP/1.1 301 Moved\r\n', 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n', 'HTTP/1.1 204 No Content\r\n'],
  ...['HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n', 'HTTP/0.9\r\n'],
  '-ERR unknown command\r\n',
)
const framing = fc.constantFrom(
  `Content-Length: ${json.length}\r\n\r\n${json}`,
  `Content-Length: 5\r\n\r\n${json}`,
  `Content-Length: 500\r\n\r\n${json}`,
  `Content-Length: -1\r\n\r\n${json}`,
  `Transfer-Encoding: chunked\r\n\r\n${json.length.toString(16)}\r\n${json}\r\n0\r\n\r\n`,
  `Transfer-Encoding: chunked\r\n\r\n${json.length.toString(16)}\r\n${json}\r\n`,
  `Transfer-Encoding: chunked\r\n\r\nzz\r\n${json}`,
  `Content-Encoding: gzip\r\nContent-Length: ${json.length}\r\n\r\n${json}`,
  `\r\n${json}`,
  '\r\n',
  '',
)
const anyAnswer: fc.Arbitrary<Answer> = fc
  .record({
    bytes: fc.oneof(
      { arbitrary: fc.tuple(head, framing).map((parts) => new TextEncoder().encode(parts.join(''))), weight: 5 },
      { arbitrary: fc.uint8Array({ maxLength: 50 }), weight: 1 },
    ),
    share: fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
    end: fc.oneof(
      { arbitrary: fc.constantFrom<End>('close', 'reset'), weight: 9 },
      { arbitrary: fc.constant<End>('hang'), weight: 1 },
    ),
  })
  .map(({ bytes, share, end }) => ({ bytes: bytes.slice(0, Math.ceil(bytes.length * share)), end }))

fuzz(
  'RedisStore#decide() answers the decision, or throws a StoreError at its deadline, whatever a server sends and leaves out',
  40,
  fc.asyncProperty(anyAnswer, async (next) => {
    answer = next
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const algorithms = new Set(['sliding-window'] as const)
    const store = openUpstashBackend({ url, token: 'token', algorithms, moreLua: LUA, timeoutMs: TIMEOUT_MS }).limits
    const request = take([createCharge('sliding-window', [{ limit: 5, windowMs: 60_000 }])])
    const [result] = await Promise.allSettled([store.decide(request)])
    if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(StoreError)
    else expect(result.value.granted).toBe(1)
  }),
)
