import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { startRestFront } from '../../tools/rest-front.ts'
import { type DirectGateway, startDirectGateway } from '../support/direct-gateway.ts'
import { redisBindings } from '../support/gateway.ts'
import { type Answer, json, send, sendInTurn } from '../support/http-client.ts'
import { connectRedis } from '../support/redis-client.ts'
import { share } from '../support/share.ts'
import { startUpstream } from '../support/upstream.ts'

const { version } = manifest

/** What the upstream has been asked for, as `METHOD /path`. */
const requested: string[] = []
const upstream = share(() =>
  startUpstream(({ method, url, headers }, response) => {
    requested.push(`${method} ${url}`)
    const own = headers['x-answer-with']
    response.writeHead(200, own ? JSON.parse(String(own)) : {}).end('hello')
  }),
)

/** A gateway for one test; without a store in the bindings, over the one in memory. */
async function startGateway(bindings: Readonly<Record<string, unknown>>): Promise<DirectGateway> {
  const gateway = await startDirectGateway({
    bundle: inject('bundle'),
    bindings: { UPSTREAM_URL: upstream.url, ...bindings },
  })
  onTestFinished(() => gateway.stop())
  return gateway
}

const X = { Authorization: 'Bearer X' }
const IP = { 'CF-Connecting-IP': '203.0.113.7' }

function expectProblem(
  answer: Answer,
  expected: { readonly status: number; readonly [member: string]: unknown },
): void {
  expect(answer.status).toBe(expected.status)
  expect(answer.headers['content-type']).toBe('application/problem+json')
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(json(answer)).toEqual({ type: `/_sluice/errors#${expected.code}`, detail: expect.any(String), ...expected })
}

test('the type of a problem leads to a row of a page, which explains its code', async () => {
  const page = await send((await startGateway({})).url, { path: '/_sluice/errors' })
  expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
  expect(page.body.toString()).toContain('<tr id="blocked">')
})

const PROBLEMS = 'https://iana.org/assignments/http-problem-types'

interface Limited {
  readonly retry_after_ms: number
  readonly 'violated-policies': readonly string[]
}

function expectLimited(answer: Answer, violated: readonly string[]): number {
  expectProblem(answer, {
    type: `${PROBLEMS}#quota-exceeded`,
    code: 'limit_exceeded',
    title: 'Too Many Requests',
    status: 429,
    'violated-policies': violated,
    retry_after_ms: expect.any(Number),
  })
  const { retry_after_ms } = json(answer) as Limited
  expect(Number.isInteger(retry_after_ms)).toBe(true)
  expect(answer.headers['retry-after']).toBe(String(Math.ceil(retry_after_ms / 1000)))
  return retry_after_ms
}

/** The fields about limits, and no others. */
function rateLimitFields({ headers }: Answer): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => /ratelimit/.test(name)))
}

describe('fields', () => {
  const ITEM = '"default-1m";r=0;t=60'
  // All that is written in a headerFormat is stated in test/unit/rate-limit-headers.
  test.each([
    [
      'draft-11',
      { ratelimit: ITEM, 'ratelimit-policy': '"default-1m";q=1;w=60' },
      { ratelimit: '"theirs";r=1;t=2', 'ratelimit-policy': '"theirs";q=9;w=10' },
      { ratelimit: `"theirs";r=1;t=2, ${ITEM}`, 'ratelimit-policy': '"theirs";q=9;w=10, "default-1m";q=1;w=60' },
    ],
    [
      'draft-6',
      { 'ratelimit-policy': '1;w=60', 'ratelimit-limit': '1', 'ratelimit-remaining': '0', 'ratelimit-reset': '60' },
      { 'ratelimit-remaining': '8' },
      { 'ratelimit-remaining': '8' },
    ],
    [
      'x-ratelimit',
      { 'x-ratelimit-limit': '1', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': expect.stringMatching(/^\d+$/) },
      { 'x-ratelimit-limit': '9', 'x-ratelimit-remaining': '8' },
      { 'x-ratelimit-limit': '9', 'x-ratelimit-remaining': '8' },
    ],
    ['off', {}, { ratelimit: '"theirs";r=1;t=2' }, { ratelimit: '"theirs";r=1;t=2' }],
  ])(
    'in %s tell how a limit stands, of refusals too, and keep what the upstream sent',
    async (headerFormat, reported, theirs, kept) => {
      const gateway = await startGateway({ RATE_LIMITS: '1/1m', RATELIMIT_HEADERS: headerFormat })
      expect(rateLimitFields(await send(gateway.url, { headers: X }))).toEqual(reported)
      const refused = await send(gateway.url, { headers: X })
      expectLimited(refused, ['default-1m'])
      expect(Object.keys(rateLimitFields(refused)).sort()).toEqual(Object.keys(reported).sort())
      const headers = { Authorization: 'Bearer Y', 'X-Answer-With': JSON.stringify(theirs) }
      expect(rateLimitFields(await send(gateway.url, { headers }))).toEqual(kept)
    },
  )

  test('are reported for a request that the upstream fails to answer, too', async () => {
    const gateway = await startGateway({ UPSTREAM_URL: 'http://127.0.0.1:1' })
    const answer = await send(gateway.url, { headers: X })
    expectProblem(answer, { code: 'upstream_unreachable', status: 502, title: 'Bad Gateway' })
    expect(answer.headers.ratelimit).toBe('"default-1m";r=59;t=60')
  })
})

describe('a caller', () => {
  test('over the limit is refused until the very millisecond given, and does not reach the upstream', async () => {
    const gateway = await startGateway({ ...redisBindings(), RATE_LIMITS: '2/1s' })
    // The first request starts the isolate, which may take a while.
    await send(gateway.url)
    const call = (path: string) => send(gateway.url, { path, headers: X })
    expect([(await call('/1')).status, (await call('/2')).status]).toEqual([200, 200])
    // On a slow machine, the window may have gone on.
    let requestedBefore: number
    let refused: Answer
    do {
      requestedBefore = requested.length
      refused = await call('/over')
    } while (refused.status === 200)
    const retryAfterMs = expectLimited(refused, ['default-1s'])
    expect((await send(gateway.url, { path: '/other', headers: { Authorization: 'Bearer Y' } })).status).toBe(200)
    await new Promise((resolve) => setTimeout(resolve, retryAfterMs))
    expect((await call('/3')).status).toBe(200)
    expect(requested.slice(requestedBefore)).toEqual(['GET /other', 'GET /3'])
  })

  test('is known by the token, however it is spelt', async () => {
    const gateway = await startGateway({ RATE_LIMITS: '4/1h' })
    const spellings = ['Bearer X', 'bearer  X', 'BEARER X', ' Bearer\tX ', 'Bearer X', 'Bearer x', 'Token X']
    const requests = spellings.map((Authorization) => ({ headers: { Authorization } }))
    expect(await sendInTurn(gateway.url, requests)).toEqual([200, 200, 200, 200, 429, 200, 429])
  })

  test('without a token is refused with ANONYMOUS=deny', async () => {
    const gateway = await startGateway({ ANONYMOUS: 'deny' })
    const before = requested.length
    for (const headers of [IP, { ...IP, Authorization: '' }, { ...IP, Authorization: ' ' }]) {
      const answer = await send(gateway.url, { headers })
      expectProblem(answer, { code: 'identity_missing', status: 401, title: 'Unauthorized' })
      expect(answer.headers['www-authenticate']).toBe('Bearer')
      expect(rateLimitFields(answer)).toEqual({})
    }
    expect(requested).toHaveLength(before)
    expect((await send(gateway.url, { headers: X })).status).toBe(200)
  })

  test('that sends HEAD gets a refusal without a body', async () => {
    const gateway = await startGateway({ RATE_LIMITS: '1/1m' })
    const head = { method: 'HEAD', headers: X }
    expect((await send(gateway.url, head)).status).toBe(200)
    const { status, headers, body } = await send(gateway.url, head)
    expect([status, headers['content-type'], body.length]).toEqual([429, 'application/problem+json', 0])
    expect(headers['retry-after']).toMatch(/^(?:5\d|60)$/)
  })
})

test('EXEMPT lets requests pass without limits, counts and fields, whoever sends them', async () => {
  const gateway = await startGateway({ RATE_LIMITS: '1/1m', ANONYMOUS: 'deny', EXEMPT: 'OPTIONS *, GET /healthz' })
  for (const request of [
    { method: 'OPTIONS', path: '/a' },
    { path: '/healthz' },
    { path: '/healthz/' },
    { path: '/./healthz' },
  ]) {
    const answers = [await send(gateway.url, request), await send(gateway.url, request)]
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(answers.map(rateLimitFields)).toEqual([{}, {}])
  }
  // The last is /healthz to most APIs, and / to one that resolves it against its own URL.
  const limited = [{ path: '/healthz/deep' }, { method: 'POST', path: '/healthz' }, { path: '//healthz' }]
  expect(
    await sendInTurn(
      gateway.url,
      limited.map((request) => ({ ...request, headers: X })),
    ),
  ).toEqual([200, 429, 429])
})

test('MODE=shadow refuses nobody, and says how the limits stand', async () => {
  const gateway = await startGateway({ MODE: 'shadow', RATE_LIMITS: '5/1h', ANONYMOUS: 'deny' })
  const answers: Answer[] = []
  for (let i = 0; i < 30; i++) answers.push(await send(gateway.url, { headers: X }))
  expect(answers.map(({ status }) => status)).toEqual(Array(30).fill(200))
  const left = answers.map(({ headers }) => Number(/;r=(\d+)/.exec(String(headers.ratelimit))?.[1]))
  expect(left).toEqual([4, 3, 2, 1, ...Array(26).fill(0)])
  expect((await send(gateway.url)).status).toBe(200)
  const shadowed = () => gateway.log.filter((line) => line.includes('"shadow_limited"'))
  await expect.poll(shadowed).not.toEqual([])
  // One line a second, and nobody's token in it.
  const [line = ''] = shadowed()
  const caller = expect.stringMatching(/^[\w-]{22}$/)
  expect(JSON.parse(line)).toEqual({ event: 'shadow_limited', violated: ['default-1h'], callers: { default: caller } })
})

describe.each([
  ['a table', (policies: readonly unknown[]) => policies],
  ['JSON', (policies: readonly unknown[]) => JSON.stringify(policies)],
])('POLICIES as %s', (_name, written) => {
  const policies = written([
    { name: 'login', limits: '2/1m', by: 'ip', match: 'POST /login' },
    { name: 'reports', limits: '100/1m, 6/1h', cost: 3, match: ['GET /reports/:id', '/reports/*/export'] },
    { name: 'routes', limits: '50/1m', by: 'token+route' },
  ])
  const POLICY_ITEMS = {
    default: '"default-1m";q=100;w=60',
    login: '"login-1m";q=2;w=60',
    reports: '"reports-1m";q=100;w=60, "reports-1h";q=6;w=3600',
    routes: '"routes-1m";q=50;w=60',
  }

  test('apply to the methods and paths that they match, at their cost', async () => {
    const gateway = await startGateway({ ...redisBindings(), RATE_LIMITS: '100/1m', POLICIES: policies })
    for (const [method, path, names] of [
      ['GET', '/', ['default', 'routes']],
      ['POST', '/login', ['default', 'login', 'routes']],
      ['GET', '/login', ['default', 'routes']],
      ['GET', '/reports/7', ['default', 'reports', 'routes']],
      ['HEAD', '/reports/7', ['default', 'reports', 'routes']],
      ['DELETE', '/reports/7', ['default', 'routes']],
      ['PUT', '/reports/7/export', ['default', 'reports', 'routes']],
      ['GET', '/reports', ['default', 'routes']],
    ] as const) {
      const own = { ...IP, Authorization: `Bearer ${method}${path}` }
      const { status, headers } = await send(gateway.url, { method, path, headers: own })
      const expected = [200, names.map((name) => POLICY_ITEMS[name]).join(', ')]
      expect([status, headers['ratelimit-policy']], `${method} ${path}`).toEqual(expected)
    }
    const requests = ['/reports/1', '/reports/2', '/reports/3', '/'].map((path) => ({ path, headers: X }))
    expect(await sendInTurn(gateway.url, requests)).toEqual([200, 200, 429, 200])
  })
})

test('keys in Redis are the prefix, the policy, the algorithm and the identity', async () => {
  const bindings = redisBindings()
  const policies = [{ name: 'login', limits: '2/1m', by: 'ip', match: '/login' }]
  const gateway = await startGateway({
    ...bindings,
    IDENTITY_SECRET: 'sixteen or more.',
    RATE_LIMITS: '9/1m',
    POLICIES: policies,
  })
  await send(gateway.url, { path: '/login', headers: { ...X, ...IP } })
  const redis = await connectRedis(inject('redisPort'))
  onTestFinished(() => redis.close())
  const keys = await redis.keys(`${bindings.KEY_PREFIX}:*`)
  const shapes = keys.map((key) =>
    key.replace(`${bindings.KEY_PREFIX}`, 'prefix').replace(/\{[\w-]{22}\}$/, '{identity}'),
  )
  expect(shapes.sort()).toEqual(['prefix:default:w:{identity}', 'prefix:login:w:{identity}'])
})

describe('while the store is unavailable', () => {
  /** Refuses every connection. */
  const REFUSING = 'http://127.0.0.1:1'

  /** Takes connections and answers with no more than this. */
  async function startStalling(answer: string): Promise<string> {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => socket.write(answer))
      onTestFinished(() => void socket.destroy())
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  const STORES: Record<string, () => string | Promise<string>> = {
    'refuses connections': () => REFUSING,
    'does not answer': () => startStalling(''),
    'stops in the middle of its answer': () => startStalling('HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"resu'),
    'is not Redis': () => startStalling('HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>'),
  }

  async function start(url: string, onStoreError: string): Promise<DirectGateway> {
    return startGateway({
      UPSTASH_REDIS_REST_URL: url,
      UPSTASH_REDIS_REST_TOKEN: 'hush-token',
      STORE_TIMEOUT_MS: 100,
      ON_STORE_ERROR: onStoreError,
      RATE_LIMITS: '2/1m',
    })
  }

  const thrice = [{ headers: X }, { headers: X }, { headers: X }]

  test.each(Object.keys(STORES))(
    'and %s: ON_STORE_ERROR=local holds the limits here, and health says so',
    async (name) => {
      const gateway = await start((await STORES[name]?.()) ?? '', 'local')
      expect(await sendInTurn(gateway.url, thrice)).toEqual([200, 200, 429])
      // One line a second, whatever the number of requests.
      await expect.poll(() => gateway.log.filter((line) => line.includes('"store_error"')).length).toBeGreaterThan(0)
      expect((await send(gateway.url, { headers: X })).headers['sluice-degraded']).toBe('local')
      expect(gateway.log.join('\n')).not.toMatch(/hush|Bearer|sluice:default/)
      const answer = await send(gateway.url, { path: '/_sluice/health' })
      expect([answer.status, json(answer)]).toEqual([
        200,
        {
          status: 'degraded',
          release: version,
          store: {
            ...{ kind: 'redis', state: 'unavailable', reachable: false, rttMs: null, timeoutMs: expect.any(Number) },
            circuit: expect.any(String),
          },
        },
      ])
    },
  )

  test.each(Object.keys(STORES))('and %s: ON_STORE_ERROR=closed lets nobody through', async (name) => {
    const gateway = await start((await STORES[name]?.()) ?? '', 'closed')
    const before = requested.length
    const answer = await send(gateway.url, { headers: X })
    expectProblem(answer, {
      type: `${PROBLEMS}#temporary-reduced-capacity`,
      code: 'store_unavailable',
      title: 'Service Unavailable',
      status: 503,
      retry_after_ms: 1_000,
    })
    expect(answer.headers['retry-after']).toBe('1')
    expect(answer.headers['sluice-degraded']).toBe('closed')
    expect(requested).toHaveLength(before)
  })

  test('ON_STORE_ERROR=open lets everybody through, with nothing to say of limits', async () => {
    const gateway = await start(REFUSING, 'open')
    expect(await sendInTurn(gateway.url, thrice)).toEqual([200, 200, 200])
    const answer = await send(gateway.url, { headers: X })
    expect([rateLimitFields(answer), answer.headers['sluice-degraded']]).toEqual([{}, 'open'])
  })

  test('nothing is lost: once it is back, it is called again', async () => {
    const token = 'hush-token'
    const first = await startRestFront({ redisPort: inject('redisPort'), token })
    const gateway = await startGateway({
      ...redisBindings(),
      UPSTASH_REDIS_REST_URL: first.url,
      UPSTASH_REDIS_REST_TOKEN: token,
      RATE_LIMITS: '2/1m',
    })
    const one = thrice.slice(0, 1)
    expect(await sendInTurn(gateway.url, one)).toEqual([200])
    await first.stop()
    expect(await sendInTurn(gateway.url, one)).toEqual([503])
    const second = await startRestFront({
      redisPort: inject('redisPort'),
      token,
      port: Number(new URL(first.url).port),
    })
    onTestFinished(() => second.stop())
    expect(await sendInTurn(gateway.url, [...one, ...one])).toEqual([200, 429])
  })
})

describe('/_sluice', () => {
  test('reports the store in health', async () => {
    const memory = await send((await startGateway({})).url, { path: '/_sluice/health' })
    expect([memory.status, memory.headers['cache-control'], json(memory)]).toEqual([
      200,
      'no-store',
      {
        status: 'ok',
        release: version,
        store: {
          kind: 'memory',
          state: 'answers',
          timeoutMs: expect.any(Number),
          reachable: true,
          rttMs: expect.any(Number),
          circuit: 'closed',
        },
      },
    ])
    const redis = await send((await startGateway(redisBindings())).url, { path: '/_sluice/health' })
    expect([redis.status, json(redis)]).toEqual([
      200,
      {
        status: 'ok',
        release: version,
        store: {
          kind: 'redis',
          state: 'answers',
          timeoutMs: expect.any(Number),
          reachable: true,
          rttMs: expect.any(Number),
          circuit: 'closed',
        },
      },
    ])
  })

  test('never reaches the upstream, however it is spelt, and is neither limited nor needs a token', async () => {
    const gateway = await startGateway({ RATE_LIMITS: '1/1m', ANONYMOUS: 'deny' })
    const before = requested.length
    for (const path of [
      ...['/_sluice/health', '//_sluice/health', '/%5Fsluice/health', '/%5fsluice//he%61lth/', '/x/../_sluice/health'],
      ...['/_sluice/health?q=1', '/\\_sluice\\health', '/_sluice/x/%2e%2e/health'],
    ]) {
      const answer = await send(gateway.url, { path })
      expect([path, answer.status, (json(answer) as { status: unknown }).status]).toEqual([path, 200, 'ok'])
      expect(rateLimitFields(answer)).toEqual({})
    }
    const head = await send(gateway.url, { method: 'HEAD', path: '/_sluice/health' })
    expect([head.status, head.body.length]).toEqual([200, 0])
    for (const request of [
      { path: '/_sluice' },
      { path: '/_sluice/' },
      { path: '//%5fsluice/else' },
      { method: 'POST', path: '/_sluice/health' },
      { method: 'OPTIONS', path: '/_sluice/health' },
    ]) {
      expectProblem(await send(gateway.url, request), { code: 'not_found', status: 404, title: 'Not Found' })
    }
    expect(requested).toHaveLength(before)
  })
})
