/** Request smuggling: what workerd refuses, and that what it passes means the same to the API as to Sluice. */
import { beforeEach, expect, test } from 'vitest'
import { exchange, LAST, readStatuses } from '../../support/raw-http.ts'
import { share } from '../../support/share.ts'
import { startThreatenedGateway } from '../../support/threatened-gateway.ts'

const gateway = share(startThreatenedGateway)
beforeEach(() => void gateway.upstream.take())

const HOST = 'Host: gateway.example\r\n'
const EVIL = `GET /evil HTTP/1.1\r\n${HOST}\r\n`
const post = (fields: string, body: string) => `POST /a HTTP/1.1\r\n${HOST}${fields}\r\n\r\n${body}`
const lines = () => gateway.upstream.take().map(({ line }) => line)

test.each([
  ['two lengths', post('Content-Length: 5\r\nContent-Length: 6', 'hello!')],
  ['a list of lengths', post('Content-Length: 5, 5', 'hello')],
  ['a length with a sign', post('Content-Length: +5', 'hello')],
  ['a negative length', post('Content-Length: -1', 'hello')],
  ['a length in base 16', post('Content-Length: 0x5', 'hello')],
  ['a length with something after it', post('Content-Length: 5 x', 'hello')],
  ['an empty length', post('Content-Length: ', 'hello')],
  ['a length beyond 64 bits', post('Content-Length: 18446744073709551621', 'hello')],
  ['an unknown transfer coding', post('Transfer-Encoding: xchunked', `0\r\n\r\n${EVIL}`)],
  ['chunked, but not last', post('Transfer-Encoding: chunked, identity', `0\r\n\r\n${EVIL}`)],
  ['identity as a transfer coding', post('Transfer-Encoding: identity\r\nContent-Length: 5', 'hello')],
  ['two transfer codings', post('Transfer-Encoding: chunked\r\nTransfer-Encoding: x', `0\r\n\r\n${EVIL}`)],
  ['a vertical tab before chunked', post('Transfer-Encoding:\x0bchunked', `0\r\n\r\n${EVIL}`)],
  ['chunked over HTTP/1.0', `POST /a HTTP/1.0\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${EVIL}`],
  ['a space before a colon', post('Transfer-Encoding : chunked\r\nContent-Length: 5', `0\r\n\r\n${EVIL}`)],
  ['a space before a name', `GET /a HTTP/1.1\r\n ${HOST}\r\n`],
  ['a space in a name', `GET /a HTTP/1.1\r\n${HOST}X Y: 1\r\n\r\n`],
  ['a folded field', `GET /a HTTP/1.1\r\n${HOST}Authorization: Bearer\r\n X\r\n\r\n`],
  ['a CR in a field', `GET /a HTTP/1.1\r\n${HOST}X-A: 1\rX-B: 2\r\n\r\n`],
  ['a NUL in a field', `GET /a HTTP/1.1\r\n${HOST}X-A: 1\0\r\n\r\n`],
  ['a NUL in the target', `GET /a\0 HTTP/1.1\r\n${HOST}\r\n`],
  ['a tab in the target', `GET /lo\tgin HTTP/1.1\r\n${HOST}\r\n`],
  ['a space in the target', `GET /a b HTTP/1.1\r\n${HOST}\r\n`],
  ['a target in Latin-1', `GET /caf\xe9 HTTP/1.1\r\n${HOST}\r\n`],
  ['HTTP/0.9', 'GET /a\r\n\r\n'],
  ['HTTP/2.0 in clear', `GET /a HTTP/2.0\r\n${HOST}\r\n`],
])('a request with %s is refused, and its connection closed', async (_, bytes) => {
  expect(readStatuses(await exchange(gateway.url, bytes + LAST))).toEqual([400])
  expect(lines()).toEqual([])
})

test.each([
  ['a length and chunked', post('Content-Length: 5\r\nTransfer-Encoding: chunked', `0\r\n\r\n${EVIL}`)],
  ['chunked and a length', post('Transfer-Encoding: chunked\r\nContent-Length: 45', `0\r\n\r\n${EVIL}`)],
])('of a request with %s the chunks count, and nothing after them', async (_, bytes) => {
  expect(readStatuses(await exchange(gateway.url, bytes + LAST))).toEqual([200])
  expect(gateway.upstream.take()).toMatchObject([{ line: 'POST /a', body: '' }])
})

test.each([
  ['the same length twice', post('Content-Length: 5\r\nContent-Length: 5', 'hello'), 'hello'],
  ['gzip below chunked', post('Transfer-Encoding: gzip, chunked', '5\r\nhello\r\n0\r\n\r\n'), 'hello'],
  ['chunked twice', post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked', '0\r\n\r\n'), ''],
  ['extensions of chunks', post('Transfer-Encoding: chunked', '5;a="b"\r\nhello\r\n0;x\r\n\r\n'), 'hello'],
  ['a space after a size', post('Transfer-Encoding: chunked', '5 \r\nhello\r\n0\r\n\r\n'), 'hello'],
  ['trailers', post('Transfer-Encoding: chunked', '5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n'), 'hello'],
  ['bare line feeds', `POST /a HTTP/1.1\n${HOST.trim()}\nContent-Length: 5\n\nhello`, 'hello'],
  ['a request as its body', post(`Content-Length: ${EVIL.length}`, EVIL), EVIL],
])('a request with %s is one request to the API, too, and so is the next', async (_, bytes, body) => {
  expect(readStatuses(await exchange(gateway.url, bytes + LAST))).toEqual([200, 200])
  const recorded = gateway.upstream.take()
  expect(recorded).toMatchObject([{ line: 'POST /a', body }, { line: 'GET /last' }])
  // One way to tell its end, for there is none to choose.
  for (const { headers } of recorded)
    expect(Number('content-length' in headers) + Number('transfer-encoding' in headers)).toBeLessThan(2)
})

test('a request whose length Connection names is refused, and its body is no request', async () => {
  const bytes = post(`Connection: Content-Length\r\nContent-Length: ${EVIL.length}`, EVIL)
  expect(readStatuses(await exchange(gateway.url, bytes + LAST))).toEqual([400, 200])
  expect(lines()).toEqual(['GET /last'])
})

test('a GET with a body is one request to the API, too', async () => {
  const bytes = `GET /a HTTP/1.1\r\n${HOST}Content-Length: ${EVIL.length}\r\nConnection: close\r\n\r\n${EVIL}`
  expect(readStatuses(await exchange(gateway.url, bytes))).toEqual([200])
  expect(gateway.upstream.take()).toMatchObject([{ line: 'GET /a', body: EVIL }])
})

test.each([
  ['a line feed alone after a size', '5\nhello\n0\n\n'],
  ['a size in another notation', '0x5\r\nhello\r\n0\r\n\r\n'],
  ['a size beyond 64 bits', '10000000000000005\r\nhello\r\n0\r\n\r\n'],
  ['a chunk that is longer than it says', '5\r\nhelloXX0\r\n\r\n'],
])('a body with %s never looks complete to the API, and nothing after it is served', async (_, body) => {
  await exchange(gateway.url, post('Transfer-Encoding: chunked', body) + EVIL)
  for (const { line, body } of gateway.upstream.take()) expect([line, body]).toEqual(['POST /a', '(broken off)'])
})

test('an Upgrade that the API refuses leaves no tunnel: what follows is a request like any other', async () => {
  const upgrade = `GET /a HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`
  const own = await exchange(gateway.url, upgrade + LAST)
  expect(readStatuses(own)).toEqual([200, 200])
  expect(own.match(/^RateLimit: /gm)).toHaveLength(2)
  expect(lines()).toEqual(['GET /a', 'GET /last'])
})

test('h2c is not spoken, whatever a client calls for', async () => {
  const fields = 'Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n'
  expect(readStatuses(await exchange(gateway.url, `GET /a HTTP/1.1\r\n${HOST}${fields}\r\n`))).toEqual([200])
  const [recorded] = gateway.upstream.take()
  expect(recorded?.headers).not.toHaveProperty('upgrade')
  expect(recorded?.headers).not.toHaveProperty('http2-settings')
})
