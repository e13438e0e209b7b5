/** Whatever a request says, it reaches the upstream, once, or nobody. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, inject, onTestFinished, test } from 'vitest'
import { startDirectGateway } from '../../support/direct-gateway.ts'
import { json, send } from '../../support/http-client.ts'
import { expectProperty } from '../../support/property.ts'
import { exchange, LAST, readStatuses } from '../../support/raw-http.ts'
import { share } from '../../support/share.ts'
import { startOwnThreatenedGateway, startThreatenedGateway } from '../../support/threatened-gateway.ts'
import { startUpstream } from '../../support/upstream.ts'

const gateway = share(startThreatenedGateway)
/** A host that nobody must be led to. */
let elsewhere: Server
let visits = 0
let evil: string

beforeAll(async () => {
  elsewhere = createServer((socket) => {
    visits++
    socket.destroy()
  }).listen(0, '127.0.0.1')
  await once(elsewhere, 'listening')
  evil = `127.0.0.1:${(elsewhere.address() as AddressInfo).port}`
})
afterAll(() => elsewhere.close())
beforeEach(() => {
  visits = 0
  gateway.upstream.take()
})

const EVIL = 'evil.example:1'
const inPlace = (text: string) => text.replaceAll(EVIL, evil)

test.each([
  ['http://evil.example:1/x', '/x'],
  ['https://evil.example:1/x', '/x'],
  ['HTTP://EVIL.example/x', '/x'],
  ['http://user:pass@evil.example:1/x', '/x'],
  ['//evil.example:1/x', '//evil.example:1/x'],
  ['///evil.example:1/x', '///evil.example:1/x'],
  ['/\\evil.example:1/x', '//evil.example:1/x'],
  ['/@evil.example:1/x', '/@evil.example:1/x'],
  ['/.evil.example:1/x', '/.evil.example:1/x'],
  ['/:1@evil.example:1/', '/:1@evil.example:1/'],
  ['/http://evil.example:1/', '/http://evil.example:1/'],
  ['/%2F%2Fevil.example:1/x', '/%2F%2Fevil.example:1/x'],
  ['/../../evil.example:1/x', '/evil.example:1/x'],
  ['/?url=http://evil.example:1/', '/?url=http://evil.example:1/'],
  ['/#@evil.example:1/', '/'],
])('a target cannot lead elsewhere: %s', async (target, served) => {
  const bytes = inPlace(`GET ${target} HTTP/1.1\r\nHost: gateway.example\r\nConnection: close\r\n\r\n`)
  expect(readStatuses(await exchange(gateway.url, bytes))).toEqual([200])
  const [recorded, ...others] = gateway.upstream.take()
  expect([recorded?.line, others, visits]).toEqual([`GET ${inPlace(served)}`, [], 0])
  expect(recorded?.headers.host).toBe(new URL(gateway.upstream.url).host)
})

test.each([
  ...['@evil.example:1/', ':1@evil.example:1/', '.evil.example:1/', '\\\\evil.example:1/x', 'evil.example:1', 'ftp:/x'],
])('an invalid target leads nowhere: %s', async (target) => {
  const bytes = inPlace(`GET ${target} HTTP/1.1\r\nHost: gateway.example\r\n\r\n`)
  const [status] = readStatuses(await exchange(gateway.url, bytes + LAST))
  // A word is taken for the path "/".
  expect([200, 400]).toContain(status)
  for (const { line } of gateway.upstream.take()) expect(line).toMatch(/^GET \/(?:last)?$/)
  expect(visits).toBe(0)
})

test.each([EVIL, '[::1]:1', 'localhost'])('a Host cannot lead elsewhere: %s', async (host) => {
  const bytes = inPlace(`GET /x HTTP/1.1\r\nHost: ${host}\r\nX-Forwarded-Host: ${EVIL}\r\nConnection: close\r\n\r\n`)
  expect(readStatuses(await exchange(gateway.url, bytes))).toEqual([200])
  const recorded = gateway.upstream.take()
  expect([recorded.length, visits]).toEqual([1, 0])
  expect(recorded[0]?.headers.host).toBe(new URL(gateway.upstream.url).host)
})

const INVALID_HOSTS = [
  ...['a b', '[::1', 'gateway.example:port', '%', '<x>', 'gateway.example, evil.example'],
  ...['user@evil.example:1', 'evil.example:1/x?', 'evil.example:1#', 'h/login?', 'u:p@h', '*', '*.example', 'h\\x'],
]
test.each(INVALID_HOSTS)('an invalid Host is a 400: %j', async (host) => {
  const answer = await exchange(gateway.url, `GET /x HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
  expect(readStatuses(answer)).toEqual([400])
  expect(answer).toContain('Content-Type: application/problem+json')
  expect(gateway.upstream.take()).toEqual([])
})

const hostPiece = fc.constantFrom(
  ...['h', 'EVIL.example', '127.0.0.1', '_x-y', '[::1]', '[', ']', ':', ':1', ':0080', '.', 'é', '\u3002'],
  ...['/login', '?', '#', '@', 'u:p@', '\\', '*', '%', '%2F', '%40', ';', ',', ' ', '\t', '&', '=', '"', '<', '~', '!'],
)
const inLatin = (text: string) => Buffer.from(text).toString('latin1')
test('whatever Host says, it changes neither the path nor the host that the upstream receives', async () => {
  await expectProperty(
    fc.asyncProperty(fc.array(hostPiece, { minLength: 1, maxLength: 4 }), async (pieces) => {
      const host = inLatin(pieces.join(''))
      const answer = await exchange(gateway.url, `GET /x HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
      const [status] = readStatuses(answer)
      const recorded = gateway.upstream.take()
      // A port of more than 16 bits, or a name of digits that is no address, is no URL.
      const isHost = /^(?:[\w.-]+|\[::1\])(?::\d*)?$/.test(host.replaceAll(/^[ \t]+|[ \t]+$/g, ''))
      if (!isHost) {
        expect([status, recorded]).toEqual([400, []])
        return
      }
      expect([200, 400]).toContain(status)
      for (const { line, headers } of recorded) {
        expect(line).toBe('GET /x')
        expect(headers['x-forwarded-host']).toMatch(/^(?:[\w.-]+|\[::1\])(?::\d+)?$/)
      }
    }),
    200,
  )
})

test.each(['http://h', 'https://h:1', 'http://*', 'http://u@h'])(
  'an absolute target does not excuse an invalid Host: %s',
  async (origin) => {
    for (const host of INVALID_HOSTS) {
      const answer = await exchange(
        gateway.url,
        `GET ${origin}/x HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
      )
      expect([host, ...readStatuses(answer)]).toEqual([host, 400])
    }
    expect(gateway.upstream.take()).toEqual([])
  },
)

test('CONNECT makes no tunnel', async () => {
  const answer = await exchange(gateway.url, inPlace(`CONNECT ${EVIL} HTTP/1.1\r\nHost: ${EVIL}\r\n\r\n`))
  expect(readStatuses(answer).every((status) => status >= 400)).toBe(true)
  expect([gateway.upstream.take(), visits]).toEqual([[], 0])
})

test('a base path is not left', async () => {
  const own = await startOwnThreatenedGateway({ UPSTREAM_URL: `${gateway.upstream.url}/v1` })
  for (const path of ['/../x', '/%2e%2e/x', '/..\\x', '/./../../x', '/%2E./x']) await send(own.url, { path })
  expect(gateway.upstream.take().map(({ line }) => line)).toEqual(Array(5).fill('GET /v1/x'))
  for (const up of ['..%2F', '..%5C', '..;/', '..;a=b/', 'a%2F..%2F..%2F', '%252e%252e/', '.%0A./', '%C0%AE%C0%AE/']) {
    expect((await send(own.url, { path: `/${up}v1/login` })).status, up).toBe(400)
  }
  expect(gateway.upstream.take()).toEqual([])
})

test("no spelling of the gateway's own paths leads to the upstream", async () => {
  for (const path of [
    ...['/_sluice/x', '/%5Fsluice/x', '//_sluice/health', '/x/../_sluice/x', '/_sluice;x/health', '/_sluice%2Fhealth'],
    ...['/x/..%2F_sluice/health', '/x/..;/_sluice/health', '/%255Fsluice/health', '//h/_sluice/health', '/_sluice%00'],
  ]) {
    const { status, headers } = await send(gateway.url, { path })
    // Health is Sluice's own answer.
    if (status === 200) expect(headers['content-type'], path).toBe('application/json')
    else expect([400, 404], path).toContain(status)
  }
  expect(gateway.upstream.take()).toEqual([])
  expect((await send(gateway.url, { path: '/docs/_sluice-setup%3F' })).status).toBe(200)
})

/** A gateway whose API leads back to it, with what the way back does to `Via`. */
async function startLoop(via: (value: string) => string | readonly string[], bindings = {}) {
  let requests = 0
  let back: URL | undefined
  const upstream = await startUpstream(async (request, response) => {
    requests++
    const headers = { via: via(String(request.headers.via)) }
    const answer = await send(back as URL, { path: request.url ?? '/', headers })
    response.writeHead(answer.status, { 'Content-Type': String(answer.headers['content-type']) }).end(answer.body)
  })
  onTestFinished(() => upstream.stop())
  const own = await startOwnThreatenedGateway({ UPSTREAM_URL: upstream.url, ...bindings })
  back = own.url
  return { url: own.url, requests: () => requests }
}

test.each<[string, (via: string) => string | readonly string[]]>([
  ['as it was', (via) => via],
  ['in capitals', (via) => via.toUpperCase()],
  ['with others around it', (via) => `1.0 fred, ${via}, 2 barney`],
  ['with others in fields of their own', (via) => ['1.0 fred', via, '2 barney']],
  ['with a comment', (via) => `${via} (a proxy, of sorts)`],
  ['with the protocol in full', (via) => via.replace('1.1', 'HTTP/1.1')],
])('a request that comes back, Via %s, is a 508 and charged once', async (_, via) => {
  const loop = await startLoop(via, { RATE_LIMITS: '10/1h' })
  const answer = await send(loop.url)
  expect(answer.status).toBe(508)
  expect(json(answer)).toMatchObject({ title: 'Loop Detected', status: 508 })
  expect(loop.requests()).toBe(1)
  expect(answer.headers.ratelimit).toBe('"default-1h";r=9;t=3600')
})

test('a request that comes back is a 508 on an exempt path, too', async () => {
  const loop = await startLoop((via) => via, { EXEMPT: '*' })
  expect((await send(loop.url)).status).toBe(508)
  expect(loop.requests()).toBe(1)
})

test('two gateways, one behind the other, are no loop', async () => {
  const front = await startDirectGateway({
    bundle: inject('bundle'),
    bindings: { UPSTREAM_URL: String(gateway.url.origin) },
  })
  onTestFinished(() => front.stop())
  expect((await send(front.url)).status).toBe(200)
  const [recorded] = gateway.upstream.take()
  expect(recorded?.headers.via).toMatch(/^1\.1 sluice-([\w-]{8}), 1\.1 sluice-(?!\1)[\w-]{8}$/)
})
