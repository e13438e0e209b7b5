import { Validator } from '@seriousme/openapi-schema-validator'
import { expect, test } from 'vitest'
import { DECIDE_TOKEN } from '../support/decisions.ts'
import { startGateway } from '../support/gateway.ts'
import { json, type Sent, send } from '../support/http-client.ts'
import { share } from '../support/share.ts'
import { startUpstream } from '../support/upstream.ts'

const POLICIES = [{ name: 'login', by: 'ip', match: 'POST /login', limits: '2/1h' }]
const api = share(() => startUpstream((_request, response) => void response.end('from the API')))
const gateway = share(() => {
  const limits = { RATE_LIMITS: '60/1m', POLICIES, EXEMPT: 'GET /free' }
  return startGateway({ UPSTREAM_URL: api.url, DECIDE_TOKEN, ...limits })
})

const authorized = { Authorization: `Bearer ${DECIDE_TOKEN}`, 'Content-Type': 'application/json' }
const ask = (sent: Sent) => send(gateway.url, { ...sent, headers: { 'Sluice-Token': DECIDE_TOKEN, ...sent.headers } })

test('the Worker decides for programs, with any algorithm in one script call', async () => {
  const decide = async (body: object) =>
    json(
      await send(gateway.url, {
        method: 'POST',
        path: '/_sluice/decide',
        headers: authorized,
        body: JSON.stringify(body),
      }),
    )
  const charges = [
    { policy: 'login', identity: ['ip', '192.0.2.7'] },
    { limits: '5/1h', algorithm: 'token-bucket', burst: 1, identity: 'a' },
  ]
  expect(await decide({ charges })).toMatchObject({ granted: true, limits: [{ remaining: 1 }, { remaining: 0 }] })
  expect(await decide({ charges })).toMatchObject({ granted: false })
  expect(await decide(charges[0] as object)).toMatchObject({ granted: true, limits: [{ remaining: 0 }] })
})

test('the Worker counts a token of a program as that of a request, however it is spelt', async () => {
  const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl'
  const left = async () =>
    /"default-1m";r=(\d+)/.exec(
      String((await send(gateway.url, { headers: { Authorization: `Bearer ${jwt}` } })).headers.ratelimit),
    )?.[1]
  const before = Number(await left())
  const body = JSON.stringify({ policy: 'default', identity: ['token', jwt], cost: 5 })
  const sent = { method: 'POST', path: '/_sluice/decide', headers: authorized, body }
  expect(json(await send(gateway.url, sent))).toMatchObject({ granted: true, limits: [{ remaining: before - 5 }] })
  expect(Number(await left())).toBe(before - 6)
})

test('the Worker decides for proxies, which cannot be led to what it forwards', async () => {
  const question = {
    'X-Forwarded-Method': 'POST',
    'X-Forwarded-Uri': '/login',
    'X-Forwarded-Host': 'api.test',
    'X-Forwarded-For': '192.0.2.8',
  }
  const statuses: number[] = []
  for (let index = 0; index < 2; index++) {
    statuses.push((await ask({ path: '/_sluice/authorize', headers: question })).status)
  }
  // As Envoy asks.
  statuses.push((await ask({ method: 'POST', path: '/_sluice/authorize/login', headers: question })).status)
  expect(statuses).toEqual([200, 200, 429])
  expect((await send(gateway.url, { path: '/free' })).body.toString()).toBe('from the API')
  for (const path of ['/free', '/_sluice/authorize/../../free', '/_sluice/authorize/%2e%2e/health']) {
    expect((await ask({ path })).status, path).toBe(404)
  }
})

test('/_sluice/openapi.json is a valid description', async () => {
  const document = json(await send(gateway.url, { path: '/_sluice/openapi.json', headers: authorized }))
  expect(await new Validator().validate(document as Record<string, unknown>)).toMatchObject({ valid: true })
})
