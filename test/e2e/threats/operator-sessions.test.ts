/** The session of an operator's browser is of no use to other sites, and cannot be made by others. */
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { type Answer, type Sent, send } from '../../support/http-client.ts'
import { ADMIN_TOKEN } from '../../support/operator.ts'
import { expectProperty } from '../../support/property.ts'
import { share } from '../../support/share.ts'
import { startThreatenedGateway } from '../../support/threatened-gateway.ts'

const gateway = share(() => startThreatenedGateway({ ADMIN_TOKEN }))
/** `sluice_session=…` of an operator. */
let cookie: string

beforeAll(async () => {
  const answer = await logIn({ Origin: gateway.url.origin })
  expect(answer.status).toBe(204)
  cookie = String(answer.headers['set-cookie']).split(';')[0] ?? ''
})

let address = 0
const anyAddress = () => `198.51.${Math.floor(++address / 256)}.${address % 256}`

function logIn(headers: Readonly<Record<string, string>>, token = ADMIN_TOKEN): Promise<Answer> {
  return post('/_sluice/login', headers, { token })
}

function post(path: string, headers: Readonly<Record<string, string>>, body: unknown = {}): Promise<Answer> {
  const sent: Sent = {
    method: 'POST',
    path,
    headers: { 'Content-Type': 'application/json', 'CF-Connecting-IP': anyAddress(), ...headers },
    body: JSON.stringify(body),
  }
  return send(gateway.url, sent)
}

const status = (Cookie: string, ip = anyAddress()) =>
  send(gateway.url, { path: '/_sluice/admin/status', headers: { Cookie, 'CF-Connecting-IP': ip } })

test('the API for operators answers a session', async () => {
  expect((await status(cookie)).status).toBe(200)
  expect((await status(`other=1; ${cookie}; more=2`)).status).toBe(200)
})

test('the cookie holds nothing of the token, and says where it belongs', async () => {
  const answer = await logIn({ Origin: gateway.url.origin })
  const [field = ''] = answer.headers['set-cookie'] ?? []
  expect(field).toMatch(
    /^sluice_session=\d+\.[\w-]{16}\.[\w-]{43}; Path=\/_sluice\/; Max-Age=3600; HttpOnly; Secure; SameSite=Strict$/,
  )
  expect(field).not.toContain(ADMIN_TOKEN.slice(10))
})

const foreign = fc.constantFrom<Readonly<Record<string, string>>>(
  {},
  { Origin: 'null' },
  { Origin: 'https://evil.example' },
  { Origin: 'http://127.0.0.1' },
  { Origin: 'http://localhost:1' },
  { Origin: '' },
  { Referer: 'http://127.0.0.1/_sluice/' },
  { 'Sec-Fetch-Site': 'same-origin' },
)
test('another origin can change nothing with a session, and log nobody in', async () => {
  const path = fc.constantFrom('/_sluice/admin/usage', '/_sluice/admin/reset', '/_sluice/login', '/_sluice/logout')
  await expectProperty(
    fc.asyncProperty(path, foreign, async (path, headers) => {
      const answer = await post(
        path,
        { ...headers, Cookie: cookie },
        { token: ADMIN_TOKEN, caller: { ip: '10.0.0.1' } },
      )
      expect(answer.status).toBe(403)
      expect(answer.headers['set-cookie']).toBeUndefined()
    }),
    100,
  )
})

test('a cookie that was changed anywhere is refused', async () => {
  await expectProperty(
    fc.asyncProperty(fc.nat(cookie.length - 16), fc.constantFrom(...'0Az9-_.'), async (at, sign) => {
      const place = 'sluice_session='.length + (at % (cookie.length - 'sluice_session='.length))
      const changed = cookie.slice(0, place) + sign + cookie.slice(place + 1)
      expect((await status(changed)).status).toBe(changed === cookie ? 200 : 401)
    }),
    200,
  )
})

const tossed = fc.oneof(
  fc.constantFrom('x', '1.2.3', '', `${'9'.repeat(13)}.${'A'.repeat(16)}.${'A'.repeat(43)}`),
  fc.nat().map((nr) => `${nr}.${'B'.repeat(16)}.${'-'.repeat(43)}`),
)
test('cookies that another page has set neither hide a session nor count as attempts', async () => {
  await expectProperty(
    fc.asyncProperty(fc.array(tossed, { minLength: 1 }), fc.nat(9), fc.boolean(), async (values, at, hasBasic) => {
      const cookies = values.map((value) => `sluice_session=${value}`)
      cookies.splice(at, 0, cookie)
      const ip = anyAddress()
      const headers: Record<string, string> = { Cookie: cookies.join('; '), 'CF-Connecting-IP': ip }
      if (hasBasic) headers.Authorization = 'Basic YTpi'
      for (let times = 0; times < 12; times++) {
        expect((await send(gateway.url, { path: '/_sluice/admin/status', headers })).status).toBe(200)
      }
      const bearer = { Authorization: `Bearer ${ADMIN_TOKEN}`, 'CF-Connecting-IP': ip }
      expect((await send(gateway.url, { path: '/_sluice/admin/status', headers: bearer })).status).toBe(200)
    }),
    30,
  )
})

test('cookies without a valid one among them count as attempts', async () => {
  const ip = anyAddress()
  const statuses: number[] = []
  for (let at = 0; at < 12; at++) statuses.push((await status(`sluice_session=x; sluice_session=${at}`, ip)).status)
  expect(statuses).toEqual([...Array(10).fill(401), 429, 429])
})

test('a session ends when ADMIN_TOKEN changes', async () => {
  const renewed = await startThreatenedGateway({ ADMIN_TOKEN: `${ADMIN_TOKEN}-new` })
  const answer = await send(renewed.url, { path: '/_sluice/admin/status', headers: { Cookie: cookie } })
  expect(answer.status).toBe(401)
  await renewed.stop()
})

test('guesses at the log-in are limited', async () => {
  const headers = { Origin: gateway.url.origin, 'CF-Connecting-IP': '198.18.0.1' }
  const answers: number[] = []
  for (let at = 0; at < 12; at++) answers.push((await logIn(headers, `wrong-${at}`)).status)
  expect(answers).toEqual([...Array(10).fill(401), 429, 429])
  expect((await logIn(headers)).status).toBe(429)
})

test('the page is nothing without a session, and runs nothing but its own script', async () => {
  const answer = await send(gateway.url, { path: '/_sluice/' })
  expect(answer.status).toBe(200)
  const policy = String(answer.headers['content-security-policy'])
  expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).not.toMatch(/unsafe|\*/)
  for (const path of ['/_sluice/dashboard.map', '/_sluice/admin.js', '/_sluice/constructor', '/_sluice/%2e%2e/x']) {
    expect((await send(gateway.url, { path })).status, path).not.toBe(500)
  }
  expect((await send(gateway.url, { path: '/_sluice/constructor' })).status).toBe(404)
})
