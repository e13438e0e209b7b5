import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { buffer, text } from 'node:stream/consumers'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { type DirectGateway, type DirectGatewayOptions, startDirectGateway } from '../support/direct-gateway.ts'
import { type Answer, json, openRequest, responseTo, type Sent, send } from '../support/http-client.ts'
import { expectProperty } from '../support/property.ts'
import { exchange, readStatuses } from '../support/raw-http.ts'
import { share } from '../support/share.ts'
import { type SteeredUpstream, startSteeredUpstream } from '../support/steered-upstream.ts'

const upstream = share(startSteeredUpstream)
const gateway = share(() => startGateway({ UPSTREAM_URL: upstream.url }))
afterEach(() => upstream.reset())
/** Without limits that count and without fields of its own, so that a response is the upstream's alone. */
function startGateway(bindings: DirectGatewayOptions['bindings'], upstreamService?: string): Promise<DirectGateway> {
  return startDirectGateway({
    bundle: inject('bundle'),
    bindings: { RATE_LIMITS: '100000/1m', RATELIMIT_HEADERS: 'off', ...bindings },
    ...(upstreamService && { upstreamService }),
  })
}

/** A gateway for one test. */
async function startOwnGateway(...options: Parameters<typeof startGateway>): Promise<DirectGateway> {
  const own = await startGateway(...options)
  onTestFinished(() => own.stop())
  return own
}

/** What the upstream gets of a request. */
async function passed(sent: Sent, through = gateway) {
  const answer = send(through.url, sent)
  const { request, response } = await upstream.next()
  const { method, url, headers, rawHeaders } = request
  const body = await text(request)
  response.end()
  await answer
  return { method, url, headers, rawHeaders, body }
}

function expectProblem(answer: Answer, status: number, title: string, code: string): void {
  expect(answer.status).toBe(status)
  expect(answer.headers['content-type']).toBe('application/problem+json')
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(json(answer)).toEqual({ type: `/_sluice/errors#${code}`, title, status, detail: expect.any(String), code })
}

describe('a request', () => {
  test.each(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND'])(
    'passes with %s',
    async (method) => {
      expect(await passed({ method, path: '/things' })).toMatchObject({ method, url: '/things' })
    },
  )

  test.each([
    ...['/a%2Fb%2fc', '//a//b/', '/%7Euser/%E2%82%AC', '/?', '/a?q=%20+&q=/../x//y&z', '/a?b=c?d', '/a;v=1/@b:c'],
    '/a%3Fb%23c',
  ])('passes with its path and query as they are: %s', async (path) => {
    // An empty query is none to a URL.
    expect(await passed({ path })).toMatchObject({ url: path.replace(/\?$/, '') })
  })

  test('passes with its fields and its body', async () => {
    const sent = {
      method: 'POST',
      headers: {
        Authorization: 'Bearer X',
        Cookie: 'a=1; b=2',
        'Accept-Encoding': 'zstd;q=0.5, br',
        'Content-Type': 'text/plain; charset=utf-8',
        'If-None-Match': '"x"',
        'X-Own': 'café',
      },
      body: 'naïve\0€',
    }
    const { headers, body } = await passed({ ...sent, headers: { ...sent.headers, 'X-Own': 'caf\u00e9' } })
    expect(body).toBe(sent.body)
    expect(headers).toMatchObject({
      authorization: 'Bearer X',
      cookie: 'a=1; b=2',
      'accept-encoding': 'zstd;q=0.5, br',
      'content-type': 'text/plain; charset=utf-8',
      'content-length': String(Buffer.byteLength(sent.body)),
      'if-none-match': '"x"',
    })
    expect(headers.host).toBe(new URL(upstream.url).host)
  })

  test('passes without fields that it did not have', async () => {
    const { rawHeaders } = await passed({})
    const names = rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase())
    expect(names.sort()).toEqual(['host', 'via', 'x-forwarded-host', 'x-forwarded-proto'])
  })

  test('is a stream: the upstream has its first chunk before the client sends the second', async () => {
    const client = openRequest(gateway.url, { method: 'PUT', path: '/upload' })
    client.write('first')
    const { request, response } = await upstream.next()
    expect(String(await once(request, 'data'))).toBe('first')
    client.write('second')
    expect(String(await once(request, 'data'))).toBe('second')
    client.end()
    await once(request, 'end')
    response.end('done')
    expect(await text(await responseTo(client))).toBe('done')
  })

  test('is answered even before its body has ended', async () => {
    const client = openRequest(gateway.url, { method: 'POST' })
    client.on('error', () => {})
    client.write('first')
    const { response } = await upstream.next()
    response.writeHead(413).end('too much')
    const answer = await responseTo(client)
    expect([answer.statusCode, await text(answer)]).toEqual([413, 'too much'])
    client.destroy()
  })

  test('ends at the upstream when the client goes away', async () => {
    const client = openRequest(gateway.url, {})
    client.on('error', () => {})
    client.end()
    const { response } = await upstream.next()
    const closed = once(response, 'close')
    // Reset: a connection that is merely closed might still be read from.
    client.socket?.resetAndDestroy()
    await closed
    expect(response.writableFinished).toBe(false)
  })

  test('loses the fields of one connection', async () => {
    const { headers } = await passed({
      headers: {
        Connection: 'close, TE, Upgrade, x-not-there',
        'X-End': '1',
        'Keep-Alive': 'timeout=5',
        'Proxy-Authorization': 'Basic eA==',
        'Proxy-Connection': 'keep-alive',
        TE: 'trailers',
        Upgrade: 'h2c',
      },
    })
    expect(Object.keys(headers).sort()).toEqual(['host', 'via', 'x-end', 'x-forwarded-host', 'x-forwarded-proto'])
  })

  test('says which way it came', async () => {
    const headers = { Host: 'api.public.example', 'CF-Connecting-IP': '203.0.113.7', Via: '1.0 fred, 2 barney' }
    expect((await passed({ headers })).headers).toMatchObject({
      via: expect.stringMatching(/^1\.0 fred, 2 barney, 1\.1 sluice-[\w-]{8}$/),
      'x-forwarded-for': '203.0.113.7',
      'x-forwarded-proto': 'http',
      'x-forwarded-host': 'api.public.example',
    })
  })

  test('has no address where none is known, least of all one that it names itself', async () => {
    const forged = { 'X-Forwarded-For': '198.51.100.1', Forwarded: 'for=198.51.100.1' }
    expect((await passed({ headers: forged })).headers).not.toHaveProperty('x-forwarded-for')
  })

  test('cannot hide which way it came by naming fields in Connection', async () => {
    const names = 'X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto, Via'
    const { headers } = await passed({ headers: { Connection: names, 'CF-Connecting-IP': '203.0.113.7' } })
    expect(headers).toMatchObject({
      via: expect.stringMatching(/^1\.1 sluice-[\w-]{8}$/),
      'x-forwarded-for': '203.0.113.7',
      'x-forwarded-proto': 'http',
      'x-forwarded-host': gateway.url.host,
    })
  })
})

describe('TRACE', () => {
  const path = fc.constantFrom('/', '/x?y=1', '/_sluice/health', '/_sluice/admin/status', '/%2F', '*')
  const method = fc.constantFrom('TRACE', 'TRACK', 'trace', 'Track')
  const field = fc.constantFrom(
    ...['Max-Forwards: 0', 'Max-Forwards: 5', 'X-HTTP-Method-Override: GET', 'Connection: X-A', 'Cookie: a=1'],
    ...['Content-Length: 0', 'Host: h', 'Expect: 100-continue', 'Upgrade: websocket'],
  )

  test('and its like are never forwarded', async () => {
    const before = upstream.requests
    await expectProperty(
      fc.asyncProperty(method, path, fc.uniqueArray(field, { maxLength: 3 }), async (method, path, fields) => {
        const host = fields.some((line) => line.startsWith('Host')) ? [] : ['Host: gateway.example']
        const head = [`${method} ${path} HTTP/1.1`, ...host, ...fields, 'Connection: close', '', ''].join('\r\n')
        const answer = await exchange(gateway.url, head)
        // What is no method of HTTP to the runtime is answered by it.
        expect(readStatuses(answer).at(-1)).toBe(method === 'TRACE' ? 405 : 501)
        if (method === 'TRACE') expect(answer).toMatch(/^Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r$/m)
      }),
      100,
    )
    expect(upstream.requests).toBe(before)
  })

  test('is a problem like other refusals', async () => {
    expectProblem(await send(gateway.url, { method: 'TRACE' }), 405, 'Method Not Allowed', 'method_not_allowed')
  })
})

// RFC 9110 §7.6.2.
describe('Max-Forwards', () => {
  const options = (value: string | string[], method = 'OPTIONS') => ({ method, headers: { 'Max-Forwards': value } })

  test.each(['0', '00', '0000000000000000000000000'])('of %s ends OPTIONS here', async (value) => {
    const before = upstream.requests
    const answer = await send(gateway.url, options(value))
    expect([answer.status, answer.headers.allow]).toEqual([204, 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'])
    expect(upstream.requests).toBe(before)
  })

  test.each([
    ['1', '0'],
    ['007', '6'],
    ['256', '255'],
    ['99999999999999999999999', '255'],
  ])('of %s is forwarded as %s', async (value, forwarded) => {
    const { method, headers } = await passed({ ...options(value), body: 'x' })
    expect([method, headers['max-forwards']]).toEqual(['OPTIONS', forwarded])
  })

  test.each(['', 'x', '-1', '0x0', '1.5', '0, 5', '0;a'])('that is no number is not forwarded: %j', async (value) => {
    expect((await passed(options(value))).headers).not.toHaveProperty('max-forwards')
  })

  test('means nothing with other methods', async () => {
    expect((await passed(options('0', 'GET'))).headers['max-forwards']).toBe('0')
  })

  test('changes nothing else of a request', async () => {
    const headers = { 'X-A': '1', 'Max-Forwards': '3', 'CF-Connecting-IP': '203.0.113.7', 'Content-Length': '6' }
    const { body, headers: received } = await passed({ method: 'OPTIONS', path: '/x', headers, body: 'a body' })
    expect(body).toBe('a body')
    expect(received).toMatchObject({ 'x-a': '1', 'x-forwarded-for': '203.0.113.7', 'max-forwards': '2' })
  })
})

describe('a response', () => {
  /** What the client gets of a response that the upstream writes. */
  async function answerTo(write: (exchange: Awaited<ReturnType<SteeredUpstream['next']>>) => void, sent: Sent = {}) {
    const answer = send(gateway.url, sent)
    write(await upstream.next())
    return answer
  }

  test('passes with its status, its fields and its body', async () => {
    const { status, headers, body } = await answerTo(({ response }) => {
      response.writeHead(418, { 'Content-Type': 'text/x-tea', ETag: '"pot"', 'Cache-Control': 'max-age=60' })
      response.end('short and stout')
    })
    expect([status, body.toString()]).toEqual([418, 'short and stout'])
    expect(headers).toMatchObject({ 'content-type': 'text/x-tea', etag: '"pot"', 'cache-control': 'max-age=60' })
  })

  test('is a stream: the client has its first chunk before the upstream sends the second', async () => {
    const client = openRequest(gateway.url, {})
    client.end()
    const { response } = await upstream.next()
    response.write('first')
    const answer = await responseTo(client)
    expect(String(await once(answer, 'data'))).toBe('first')
    response.write('second')
    expect(String(await once(answer, 'data'))).toBe('second')
    response.end()
    await once(answer, 'end')
    expect(answer.complete).toBe(true)
  })

  test('that breaks off does not look complete', async () => {
    const client = openRequest(gateway.url, {})
    client.end()
    const { response } = await upstream.next()
    response.writeHead(200, { 'Content-Length': '100' })
    response.write('first')
    const answer = await responseTo(client)
    const body = buffer(answer)
    response.destroy()
    await expect(body).rejects.toThrow()
    expect(answer.complete).toBe(false)
  })

  test('keeps each of its cookies', async () => {
    const cookies = ['a=1; Path=/; Expires=Wed, 21 Oct 2037 07:28:00 GMT', 'b=2; HttpOnly']
    const { headers } = await answerTo(({ response }) => response.writeHead(200, { 'Set-Cookie': cookies }).end())
    expect(headers['set-cookie']).toEqual(cookies)
  })

  const REDIRECTS = [301, 302, 303, 307, 308].flatMap((status) =>
    // Nobody listens there.
    ['/else?a=%2F', 'http://127.0.0.1:1/'].map((location) => [status, location] as const),
  )
  test.each(REDIRECTS)("that redirects with %d to %s is the client's to follow", async (status, Location) => {
    const before = upstream.requests
    const sent = { method: 'POST', body: 'x' }
    const answer = await answerTo(({ response }) => response.writeHead(status, { Location }).end('moved'), sent)
    expect([answer.status, answer.headers.location, answer.body.toString()]).toEqual([status, Location, 'moved'])
    expect(upstream.requests - before).toBe(1)
  })

  test.each([204, 205, 304])('passes with status %d and no body', async (status) => {
    const answer = await answerTo(({ response }) => response.writeHead(status, { ETag: '"x"', 'X-A': '1' }).end())
    expect([answer.status, answer.body.length]).toEqual([status, 0])
    expect(answer.headers).toMatchObject({ etag: '"x"', 'x-a': '1' })
  })

  const page = 'sluice '.repeat(10_000)
  test.each([
    ['gzip', gzipSync(page, { level: 1 })],
    ['gzip', gzipSync(page, { level: 0 })],
    ['br', brotliCompressSync(page)],
    // Nothing looks inside: what claims to be packed need not be.
    ['gzip', Buffer.from('not gzip at all')],
    ['zstd', Buffer.from('whatever')],
  ])('packed with %s passes byte for byte (%#)', async (encoding, packed) => {
    const answer = await answerTo(
      ({ response }) => {
        response.writeHead(200, { 'Content-Encoding': encoding, 'Content-Type': 'text/plain' }).end(packed)
      },
      { headers: { 'Accept-Encoding': 'gzip, br, zstd' } },
    )
    expect(answer.headers['content-encoding']).toBe(encoding)
    expect(answer.body.equals(packed)).toBe(true)
  })

  test('to HEAD has the fields of that to GET, the length among them, and no body', async () => {
    const answer = await answerTo(
      ({ request, response }) => {
        expect(request.method).toBe('HEAD')
        response.writeHead(200, { 'Content-Length': '12345', 'Content-Encoding': 'gzip', ETag: '"x"' }).end()
      },
      { method: 'HEAD' },
    )
    expect([answer.status, answer.body.length]).toEqual([200, 0])
    expect(answer.headers).toMatchObject({ 'content-length': '12345', 'content-encoding': 'gzip', etag: '"x"' })
  })

  test('loses the fields of one connection, and those that Connection names', async () => {
    const { headers } = await answerTo(({ response }) => {
      response.writeHead(200, {
        Connection: 'close, X-Hop',
        'X-Hop': '1',
        'X-End': '1',
        'Keep-Alive': 'timeout=5',
        'Proxy-Authenticate': 'Basic',
        'Proxy-Connection': 'close',
        TE: 'trailers',
        Trailer: 'X-Late',
        'Transfer-Encoding': 'chunked',
        Upgrade: 'h2c',
      })
      response.end('body')
    })
    // What is left of Connection and Transfer-Encoding is about the client's own connection.
    expect(Object.keys(headers).sort()).toEqual(['connection', 'date', 'transfer-encoding', 'x-end'])
    expect(headers.connection).not.toMatch(/X-Hop/i)
  })
})

test('a request of more fields than APIs take is a 431, one of as many passes', async () => {
  const fields = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-${i}`, '1']))
  expect((await passed({ headers: fields(90) })).headers).toMatchObject(fields(90))
  const answer = await send(gateway.url, { headers: fields(120) })
  expect([answer.status, answer.headers['content-type']]).toEqual([431, 'application/problem+json'])
})

test.each([`/${'x'.repeat(4_500)}`, `/?${'x'.repeat(8_190)}`, `/?a=b${'&a=b'.repeat(1_000)}`])(
  'a request with a URL too long to read is a 414: %.10s',
  async (path) => {
    const answer = await send(gateway.url, { path })
    expect([answer.status, answer.headers['content-type']]).toEqual([414, 'application/problem+json'])
  },
)

describe('UPSTREAM_URL', () => {
  test.each([
    ['/v1', '/v1'],
    ['/v1/', '/v1'],
    ['/a%2Fb/c//', '/a%2Fb/c'],
  ])('may have a base path: %s', async (base, prefix) => {
    const own = await startOwnGateway({ UPSTREAM_URL: upstream.url + base })
    const urls: unknown[] = []
    for (const path of ['/', '/things?q=1', '//x', '/../../etc', '/%2e%2e/etc', '/a%2Fb']) {
      urls.push((await passed({ path }, own)).url)
    }
    // No request leaves the base path.
    expect(urls).toEqual(['/', '/things?q=1', '//x', '/etc', '/etc', '/a%2Fb'].map((path) => prefix + path))
  })

  test('gives way to a service binding, which sees the URL of the request itself', async () => {
    const own = await startOwnGateway({ UPSTREAM_URL: 'http://127.0.0.1:1' }, new URL(upstream.url).host)
    const { url, headers } = await passed(
      { path: '/a%2Fb?q=1', headers: { Host: 'api.public.example', 'X-Forwarded-Host': 'forged.example' } },
      own,
    )
    expect(url).toBe('/a%2Fb?q=1')
    // Policies were matched on a path without dot segments: none is left for the service to resolve otherwise.
    expect((await passed({ path: '/x/../a%2Fb//c/.%2e/d' }, own)).url).toBe('/a%2Fb//d')
    expect(headers).toMatchObject({
      host: 'api.public.example',
      via: expect.stringMatching(/^1\.1 sluice-[\w-]{8}$/),
      'x-forwarded-host': 'api.public.example',
    })
  })
})

describe('an upstream', () => {
  test('that refuses connections is a 502', async () => {
    const closed = createServer().listen(0, '127.0.0.1')
    await once(closed, 'listening')
    const { port } = closed.address() as AddressInfo
    closed.close()
    await once(closed, 'close')
    const own = await startOwnGateway({ UPSTREAM_URL: `http://127.0.0.1:${port}` })
    expectProblem(await send(own.url), 502, 'Bad Gateway', 'upstream_unreachable')
  })

  test.each([
    ['hangs up', ''],
    ['speaks no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n'],
  ])('that %s is a 502', async (_name, answer) => {
    const broken = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => socket.end(answer))
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void broken.close())
    await once(broken, 'listening')
    const own = await startOwnGateway({ UPSTREAM_URL: `http://127.0.0.1:${(broken.address() as AddressInfo).port}` })
    expectProblem(await send(own.url), 502, 'Bad Gateway', 'upstream_unreachable')
  })

  test('that does not begin to answer in time is a 504, and is cancelled, as nobody waits any more', async () => {
    const own = await startOwnGateway({ UPSTREAM_URL: upstream.url, UPSTREAM_TIMEOUT_MS: 1_000 })
    const answer = send(own.url)
    const { response } = await upstream.next()
    const closed = once(response, 'close')
    expectProblem(await answer, 504, 'Gateway Timeout', 'upstream_timeout')
    await closed
  })

  test('may take its time once it has begun to answer', { tags: ['slow'] }, async () => {
    const timeoutMs = 3_000
    const own = await startOwnGateway({ UPSTREAM_URL: upstream.url, UPSTREAM_TIMEOUT_MS: timeoutMs })
    const client = openRequest(own.url, {})
    client.end()
    const { response } = await upstream.next()
    response.write('first')
    const answer = await responseTo(client)
    // It is the deadline itself that has to go by.
    await new Promise((resolve) => setTimeout(resolve, timeoutMs + 1))
    response.end(' second')
    expect(await text(answer)).toBe('first second')
  })
})

test('a WebSocket that the upstream refuses is a plain response', async () => {
  const client = new WebSocket(`ws://${gateway.url.host}/`)
  const refused = once(client, 'unexpected-response')
  const { request, response } = await upstream.next()
  expect(request.headers.upgrade).toBe('websocket')
  response.writeHead(403, { 'X-Why': 'closed' }).end('no')
  const [, answer] = await refused
  expect([answer.statusCode, answer.headers['x-why'], await text(answer)]).toEqual([403, 'closed', 'no'])
})
