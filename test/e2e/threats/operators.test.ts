/** Nobody but an operator gets at what operators can do, and nobody learns their token. */
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { type Answer, json, openRequest, responseTo, send } from '../../support/http-client.ts'
import { ADMIN_TOKEN, operate } from '../../support/operator.ts'
import { expectProperty } from '../../support/property.ts'
import { share } from '../../support/share.ts'
import { startThreatenedGateway } from '../../support/threatened-gateway.ts'

const HOST = 'admin.example.com'

const gateway = share(() => startThreatenedGateway({ ADMIN_TOKEN }))
const hosted = share(() => startThreatenedGateway({ ADMIN_TOKEN, ADMIN_HOST: HOST }))

/** Of nobody else. */
const anyAddress = () => `10.${[...randomBytes(3)].join('.')}`

const PATHS = ['/_sluice/admin', '/_sluice/admin/status', '/_sluice/admin/usage', '/_sluice/admin/openapi.json']

/** A path, some of whose signs are escaped, and which takes detours. */
const anySpelling = fc
  .tuple(
    fc.constantFrom(...PATHS),
    fc.array(fc.constantFrom('as it is', 'escaped', 'escaped', 'doubled', 'detour', 'ESCAPED'), { maxLength: 40 }),
  )
  .map(([path, ways]) =>
    [...path].map((sign, at) => spelled(sign, at === 0 ? 'as it is' : (ways[at] ?? 'as it is'))).join(''),
  )

function spelled(sign: string, way: string): string {
  const code = sign.charCodeAt(0).toString(16)
  if (sign === '/') return { doubled: '//', detour: '/x/../', escaped: '%2f', ESCAPED: '%2F' }[way] ?? sign
  return { escaped: `%${code}`, ESCAPED: `%${code.toUpperCase()}` }[way] ?? sign
}

const basic = Buffer.from(`admin:${ADMIN_TOKEN}`).toString('base64')

/** What is sent in place of the token, or where it does not belong. */
const anyPretence = fc.oneof(
  fc.constantFrom<Readonly<Record<string, string>>>(
    {},
    { Authorization: '' },
    { Authorization: 'Bearer' },
    { Authorization: ADMIN_TOKEN },
    { Authorization: `Basic ${basic}` },
    { Authorization: `Bearer ${ADMIN_TOKEN.slice(0, -1)}` },
    { Authorization: `Bearer ${ADMIN_TOKEN}x` },
    { Authorization: `Bearer ${ADMIN_TOKEN.toUpperCase()}` },
    { Authorization: `Bearer ${ADMIN_TOKEN} ${ADMIN_TOKEN}` },
    { Authorization: `Bearer x, Bearer ${ADMIN_TOKEN}` },
    { 'Proxy-Authorization': `Bearer ${ADMIN_TOKEN}` },
    { 'X-Admin-Token': ADMIN_TOKEN, 'X-Original-URL': '/_sluice/admin/status' },
    { Cookie: `sluice_session=${ADMIN_TOKEN}` },
    { Cookie: 'sluice_session=' },
    { Cookie: `sluice_session=9999999999999.${'A'.repeat(16)}.${'A'.repeat(43)}` },
  ),
  fc
    .string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)), minLength: 1 })
    .map((token) => ({ Authorization: `Bearer ${token}` })),
  fc.base64String().map((text) => ({ Cookie: `sluice_session=${text}` })),
)
const anyQuery = fc.constantFrom('', `?token=${ADMIN_TOKEN}`, `?access_token=${ADMIN_TOKEN}`, `?${ADMIN_TOKEN}`)
const anyMethod = fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH')

function expectToTellNothing({ rawHeaders, body }: Answer): void {
  const reported = `${rawHeaders.join('\n')}\n${body}`
  expect(reported).not.toContain(ADMIN_TOKEN.slice(10))
  expect(reported).not.toContain('"limits"')
  expect(reported).not.toContain('"circuit"')
}

test('without the token, no spelling, no method and no pretence gets anything, and the API sees none of it', async () => {
  await expectProperty(
    fc.asyncProperty(anySpelling, anyMethod, anyPretence, anyQuery, async (path, method, headers, query) => {
      const answer = await send(gateway.url, {
        method,
        path: path + query,
        headers: { ...headers, 'CF-Connecting-IP': anyAddress() },
      })
      expect([400, 401]).toContain(answer.status)
      expectToTellNothing(answer)
      expect(gateway.upstream.take()).toEqual([])
    }),
    600,
  )
})

test('with the token, a spelling of a path is that path, or refused', async () => {
  await expectProperty(
    fc.asyncProperty(anySpelling, async (path) => {
      const headers = { Authorization: `Bearer ${ADMIN_TOKEN}`, 'CF-Connecting-IP': anyAddress() }
      const { status } = await send(gateway.url, { path, headers })
      expect([200, 400, 404, 405]).toContain(status)
      expect(gateway.upstream.take()).toEqual([])
    }),
    200,
  )
})

test.each(['gateway.example.com', `${HOST}.example.com`, `${HOST}:8080`, '127.0.0.1', 'admin.example.co'])(
  'on %s, there is nothing, as if there were no operators',
  async (host) => {
    const ask = (path: string, headers = {}) => send(hosted.url, { path, headers: { Host: host, ...headers } })
    const nothing = await ask('/_sluice/nothing')
    for (const path of [...PATHS, '/_sluice/', '/_sluice/dashboard.js', '/_sluice/login']) {
      for (const headers of [{}, { Authorization: `Bearer ${ADMIN_TOKEN}` }]) {
        const { status, body } = await ask(path, headers)
        expect([status, body.toString()]).toEqual([404, nothing.body.toString()])
      }
    }
  },
)

test('on ADMIN_HOST they are served, whatever its case', async () => {
  for (const host of [HOST, HOST.toUpperCase()]) {
    expect((await operate(hosted.url, '/status', { headers: { Host: host } })).status).toBe(200)
  }
})

describe('an address that was wrong ten times within a minute', () => {
  const ip = anyAddress()
  const ask = (token: string, address = ip) =>
    operate(gateway.url, '/status', { headers: { Authorization: `Bearer ${token}`, 'CF-Connecting-IP': address } })

  test('no longer learns whether it is right, however many requests it sends at once', async () => {
    const answers = await Promise.all(Array.from({ length: 30 }, (_, at) => ask(`wrong-${at}`)))
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(10)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(20)
    const right = await ask(ADMIN_TOKEN)
    expect(right.status).toBe(429)
    expect(json(right)).toMatchObject({ retry_after_ms: expect.any(Number) })
    expect(Number(right.headers['retry-after'])).toBeGreaterThan(0)
    expect((await ask(ADMIN_TOKEN, anyAddress())).status).toBe(200)
  })

  test('is logged by its digest, without what it sent', async () => {
    await vi.waitFor(() => expect(gateway.log.join()).toContain('admin_refused'), { timeout: 60_000 })
    const log = gateway.log.join('\n')
    expect(log).toMatch(/"caller":"[\w-]{22}"/)
    for (const secret of [ip, 'wrong-', ADMIN_TOKEN]) expect(log).not.toContain(secret)
  })
})

test('what is no login is an attempt as well, and no more of it is read than of a token', async () => {
  const logIn = (body: string) =>
    send(gateway.url, {
      ...{ method: 'POST', path: '/_sluice/login', body },
      headers: {
        ...{ 'Content-Type': 'application/json', 'CF-Connecting-IP': address },
        ...{ Host: gateway.url.host, Origin: gateway.url.origin },
      },
    })
  const address = anyAddress()
  const statuses: number[] = []
  for (const body of ['{', '{}', '{"token":7}', JSON.stringify({ token: 'x'.repeat(5_000) })]) {
    statuses.push((await logIn(body)).status)
  }
  for (let sent = 0; sent < 8; sent++) statuses.push((await logIn('[]')).status)
  statuses.push((await logIn(JSON.stringify({ token: ADMIN_TOKEN }))).status)
  expect(statuses).toEqual([400, 400, 400, 413, ...Array(6).fill(400), 429, 429, 429])
})

test.each([{ 'Content-Length': '300000' }, { 'Transfer-Encoding': 'chunked' }])(
  'a huge body is not read to its end: %j',
  async (length) => {
    const headers = {
      Authorization: `Bearer ${ADMIN_TOKEN}`,
      'Content-Type': 'application/json',
      'CF-Connecting-IP': anyAddress(),
      ...length,
    }
    const client = openRequest(gateway.url, { method: 'POST', path: '/_sluice/admin/usage', headers })
    const answered = responseTo(client)
    // It may close the connection as soon as it has answered.
    client.on('error', () => {})
    client.write('x'.repeat(290_000))
    expect((await answered).statusCode).toBe(413)
    client.destroy()
  },
)

test.each([
  ['text/plain', '{}', 415],
  ['application/x-www-form-urlencoded', 'caller=x', 415],
  ['application/json', '{"caller":', 400],
  ['application/json', '', 400],
  ['application/json; charset=utf-8', '{"__proto__":{"caller":{"token":"x"}}}', 400],
  ['application/json', `${'['.repeat(50_000)}`, 400],
])('a body as %s that is not what it should be: %#', async (type, body, status) => {
  const headers = { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': type, 'CF-Connecting-IP': anyAddress() }
  const answer = await send(gateway.url, { method: 'POST', path: '/_sluice/admin/usage', headers, body })
  expect(answer.status).toBe(status)
  expectToTellNothing(answer)
})
