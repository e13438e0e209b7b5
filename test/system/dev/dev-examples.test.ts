import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest'
import { type Environment, loadConfig } from '../../../src/http/config/load-config.ts'
import { createExamples, type Example } from '../../../tools/dev-examples.ts'
import { PLANTED } from '../../setup/secret-watch.ts'
import { startDirectGateway } from '../../support/direct-gateway.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'

const run = promisify(execFile)
const shell = async ({ command }: Example) => (await run('sh', ['-c', command])).stdout

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream((_request, response) => response.end('hello'))
})
afterAll(() => upstream.stop())

const policy = (table: Readonly<Record<string, unknown>>) => ({ name: 'p', limits: '3/2s', ...table })

test.for<[string, Environment]>([
  ['limits for everybody', { RATE_LIMITS: '4/2s, 1000/1h' }],
  ['ANONYMOUS=deny', { RATE_LIMITS: '4/2s', ANONYMOUS: 'deny' }],
  ['a header that must be there', { POLICIES: [policy({ by: 'header:x-caller', anonymous: 'deny' })] }],
  [
    'a query and a form field',
    { POLICIES: [policy({ by: "query:it's&+form:user", anonymous: 'deny', match: 'POST /in' })] },
  ],
  [
    'a cookie, members of a body and claims',
    {
      POLICIES: [
        policy({ by: 'cookie:sid+json:/user/id+json:/user/name', anonymous: 'deny', match: 'POST /in' }),
        policy({ name: 'users', by: 'claim:sub+claim:/account/id', anonymous: 'deny' }),
      ],
      JWT_SECRET: `${PLANTED}-that-signs-tokens`,
      JWT_ISSUER: 'https://id.example',
      JWT_AUDIENCE: 'https://api.example',
    },
  ],
  ['costs', { POLICIES: [policy({ limits: '7/2s', cost: 2 })] }],
  [
    'patterns, and an exempt root',
    { POLICIES: [policy({ match: 'PUT /users/:id/*' })], EXEMPT: 'GET /, GET /example' },
  ],
  ['a bucket', { POLICIES: [policy({ algorithm: 'token-bucket', limits: '1/1s', burst: 3 })] }],
  [
    'also failures, which the API has none of',
    { POLICIES: [policy({}), policy({ name: 'f', limits: '1/2s', counts: 'failures' })] },
  ],
  ['also a limit on concurrency', { POLICIES: [policy({}), { name: 'c', limits: '1', algorithm: 'concurrency' }] }],
])('createExamples() are admitted, limited and admitted again, with %s', async ([, env]) => {
  const bindings = { ...env, UPSTREAM_URL: upstream.url }
  const point = await startDirectGateway({ bundle: inject('bundle'), bindings })
  onTestFinished(() => point.stop())
  const [admit, limit, recovery] = await createExamples(point.url.origin, loadConfig(bindings))
  if (!admit || !limit || !recovery) return expect.unreachable()
  expect(await shell(admit)).toMatch(/^HTTP\/1.1 200 /)
  // On a slow machine, the window may go on meanwhile.
  let statuses = await shell(limit)
  while (!statuses.includes(' 429')) statuses = await shell(limit)
  expect(statuses).toMatch(/^( *\d+ (200|429)\n)+$/)
  // It asks first how long to wait. On a slow machine, that may use up what has come back.
  let recovered = await shell(recovery)
  while (recovered.startsWith('HTTP/1.1 429')) recovered = await shell(recovery)
  expect(recovered).toMatch(/^HTTP\/1.1 200 /)
})

test.for<[string, Environment]>([
  ['in shadow mode', { RATE_LIMITS: '1/1s', MODE: 'shadow' }],
  ['for a limit on concurrency', { POLICIES: [policy({ limits: '1', algorithm: 'concurrency' })] }],
  ['for a limit out of reach', { RATE_LIMITS: '100000/1s' }],
])('createExamples() show no refusal %s', async ([, env]) => {
  const shown = await createExamples('http://host', loadConfig({ ...env, UPSTREAM_URL: 'http://host' }))
  expect(shown.map(({ shows }) => shows)).toEqual(['admit'])
})

test('createExamples() need a token where nobody here can sign one, unless they can do without', async () => {
  const JWKS_URL = 'https://id.example/jwks'
  const shownBy = async (anonymous: string) => {
    const env = { UPSTREAM_URL: 'http://host', JWKS_URL, POLICIES: [policy({ by: 'claim:sub', anonymous })] }
    return (await createExamples('http://host', loadConfig(env))).map(({ command }) => command)
  }
  const [token, admit] = await shownBy('deny')
  expect(token).toBe(`read -r TOKEN  # paste one with sub that the keys at ${JWKS_URL} verify`)
  expect(admit).toBe('curl -s -H "Authorization: Bearer $TOKEN" -i http://host/')
  expect((await shownBy('ip'))[0]).toBe("curl -s -H 'Authorization: Bearer a' -i http://host/")
})

test('createExamples() go just past the limit that is reached first', async () => {
  const env = { RATE_LIMITS: '10/1s, 7/1h', POLICIES: [policy({ limits: '3/1s', match: 'POST /login' })] }
  const [, limit] = await createExamples('http://host', loadConfig({ ...env, UPSTREAM_URL: 'http://host' }))
  expect(limit?.command).toMatch(/-X POST .*'http:\/\/host\/login\?try=\[1-5\]'/)
})
