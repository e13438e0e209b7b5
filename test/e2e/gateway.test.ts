import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { startRestFront } from '../../tools/rest-front.ts'
import { type DirectGateway, startDirectGateway } from '../support/direct-gateway.ts'
import { type Answer, json, type Sent, send } from '../support/http-client.ts'
import { connectRedis } from '../support/script-store.ts'
import { PATIENT } from '../support/site.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'

const { version } = manifest

/** What the upstream has been asked for, as `METHOD /path`. */
const asked: string[] = []
let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream(({ method, url, headers }, response) => {
    asked.push(`${method} ${url}`)
    const own = headers['x-answer-with']
    response.writeHead(200, own ? JSON.parse(String(own)) : {}).end('hello')
  })
})
afterAll(() => upstream.stop())

/** A gateway for one test; without a store in the bindings, over the one in memory. */
async function startGateway(bindings: Readonly<Record<string, unknown>>): Promise<DirectGateway> {
  const gateway = await startDirectGateway({
    bundle: inject('bundle'),
    bindings: { UPSTREAM_URL: upstream.url, ...bindings },
  })
  onTestFinished(() => gateway.stop())
  return gateway
}

function redisBindings(): Readonly<Record<string, unknown>> {
  return {
    UPSTASH_REDIS_REST_URL: inject('redisRestUrl'),
    UPSTASH_REDIS_REST_TOKEN: inject('redisRestToken'),
    KEY_PREFIX: randomUUID(),
    ...PATIENT,
  }
}

const X = { Authorization: 'Bearer X' }
const IP = { 'CF-Connecting-IP': '203.0.113.7' }

async function statuses({ url }: DirectGateway, requests: readonly Sent[]): Promise<readonly number[]> {
  const all: number[] = []
  for (const request of requests) all.push((await send(url, request)).status)
  return all
}

function expectProblem(
  answer: Answer,
  expected: { readonly status: number; readonly [member: string]: unknown },
): void {
  expect(answer.status).toBe(expected.status)
  expect(answer.headers['content-type']).toBe('application/problem+json')
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(json(answer)).toEqual({ type: 'about:blank', detail: expect.any(String), ...expected })
}

const PROBLEMS = 'https://iana.org/assignments/http-problem-types'

interface Limited {
  readonly retry_after_ms: number
  readonly 'violated-policies': readonly string[]
}

function expectLimited(answer: Answer, violated: readonly string[]): number {
  expectProblem(answer, {
    type: `${PROBLEMS}#quota-exceeded`,
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
  const limits = { RATE_LIMITS: '1/1m, 5/1500ms' }

  /** An admitted and a refused answer, and when the first was asked for and the second had come. */
  async function ask(dialect: string) {
    const gateway = await startGateway({ ...limits, RATELIMIT_HEADERS: dialect })
    const from = Date.now()
    const admitted = await send(gateway.url, { headers: X })
    const refused = await send(gateway.url, { headers: X })
    expectLimited(refused, ['default-1m'])
    return { admitted, refused, seconds: refused.headers['retry-after'], from, to: Date.now() }
  }

  test('of draft-11 are lists of every tier', async () => {
    const { admitted, refused, seconds } = await ask('draft-11')
    const policy = '"default-1500ms";q=5, "default-1m";q=1;w=60'
    expect(rateLimitFields(admitted)).toEqual({
      'ratelimit-policy': policy,
      ratelimit: '"default-1500ms";r=4;t=2, "default-1m";r=0;t=60',
    })
    expect(rateLimitFields(refused)).toEqual({
      'ratelimit-policy': policy,
      ratelimit: expect.stringMatching(new RegExp(`^"default-1500ms";r=[45];t=[12], "default-1m";r=0;t=${seconds}$`)),
    })
  })

  test('of draft-6 tell of the tightest tier', async () => {
    const { admitted, refused, seconds } = await ask('draft-6')
    const quotas = { 'ratelimit-policy': '5, 1;w=60', 'ratelimit-limit': '1', 'ratelimit-remaining': '0' }
    expect(rateLimitFields(admitted)).toEqual({ ...quotas, 'ratelimit-reset': '60' })
    expect(rateLimitFields(refused)).toEqual({ ...quotas, 'ratelimit-reset': seconds })
  })

  test('of x-ratelimit tell of the tightest tier, and when it is reset', async () => {
    const { admitted, refused, from, to } = await ask('x-ratelimit')
    for (const answer of [admitted, refused]) {
      const { 'x-ratelimit-reset': reset, ...others } = rateLimitFields(answer)
      expect(others).toEqual({ 'x-ratelimit-limit': '1', 'x-ratelimit-remaining': '0' })
      expect(Number(reset)).toBeGreaterThanOrEqual(Math.ceil((from + 60_000) / 1000))
      expect(Number(reset)).toBeLessThanOrEqual(Math.ceil((to + 60_000) / 1000))
    }
  })

  test('are left out where they are off', async () => {
    const { admitted, refused } = await ask('off')
    expect([rateLimitFields(admitted), rateLimitFields(refused)]).toEqual([{}, {}])
  })

  test.each([
    [
      'draft-11',
      { RateLimit: '"theirs";r=1;t=2', 'RateLimit-Policy': '"theirs";q=9;w=10' },
      {
        ratelimit: '"theirs";r=1;t=2, "default-1m";r=59;t=60',
        'ratelimit-policy': '"theirs";q=9;w=10, "default-1m";q=60;w=60',
      },
    ],
    [
      'x-ratelimit',
      { 'X-RateLimit-Limit': '9', 'X-RateLimit-Remaining': '8' },
      { 'x-ratelimit-limit': '9', 'x-ratelimit-remaining': '8' },
    ],
  ])('that the upstream sent are kept, with %s', async (dialect, theirs, expected) => {
    const gateway = await startGateway({ RATELIMIT_HEADERS: dialect })
    const answer = await send(gateway.url, { headers: { ...X, 'X-Answer-With': JSON.stringify(theirs) } })
    expect(rateLimitFields(answer)).toEqual(expected)
  })

  test('are told of a request that the upstream fails to answer, too', async () => {
    const gateway = await startGateway({ UPSTREAM_URL: 'http://127.0.0.1:1' })
    const answer = await send(gateway.url, { headers: X })
    expectProblem(answer, { status: 502, title: 'Bad Gateway' })
    expect(answer.headers.ratelimit).toBe('"default-1m";r=59;t=60')
  })
})

describe('a caller', () => {
  test('over the limit is refused until the very millisecond given, and does not reach the upstream', async () => {
    const gateway = await startGateway({ RATE_LIMITS: '2/1s' })
    // The first request starts the isolate, which may take a while.
    await send(gateway.url)
    const call = (path: string) => send(gateway.url, { path, headers: X })
    expect([(await call('/1')).status, (await call('/2')).status]).toEqual([200, 200])
    // On a slow machine, the window may have gone on.
    let askedBefore: number
    let refused: Answer
    do {
      askedBefore = asked.length
      refused = await call('/over')
    } while (refused.status === 200)
    const retryAfterMs = expectLimited(refused, ['default-1s'])
    expect((await send(gateway.url, { path: '/other', headers: { Authorization: 'Bearer Y' } })).status).toBe(200)
    await new Promise((resolve) => setTimeout(resolve, retryAfterMs))
    expect((await call('/3')).status).toBe(200)
    expect(asked.slice(askedBefore)).toEqual(['GET /other', 'GET /3'])
  })

  test('is known by the token, however it is spelt', async () => {
    const gateway = await startGateway({ RATE_LIMITS: '4/1h' })
    const spellings = ['Bearer X', 'bearer  X', 'BEARER X', ' Bearer\tX ', 'Bearer X', 'Bearer x', 'Token X']
    const requests = spellings.map((Authorization) => ({ headers: { Authorization } }))
    expect(await statuses(gateway, requests)).toEqual([200, 200, 200, 200, 429, 200, 429])
  })

  test('without a token is known by the address, and by no other field', async () => {
    const gateway = await startGateway({ RATE_LIMITS: '3/1h' })
    const addresses = ['2001:db8::1', '2001:DB8:0:0:ffff::2', '2001:db8:0::3', '2001:db8::4', '2001:db8:0:1::1']
    const requests = addresses.map((address, i) => ({
      headers: { 'CF-Connecting-IP': address, 'X-Forwarded-For': `198.51.100.${i}`, Authorization: ' ' },
    }))
    expect(await statuses(gateway, requests)).toEqual([200, 200, 200, 429, 200])
  })

  test('without a token is refused with ANONYMOUS=deny', async () => {
    const gateway = await startGateway({ ANONYMOUS: 'deny' })
    const before = asked.length
    for (const headers of [IP, { ...IP, Authorization: '' }, { ...IP, Authorization: ' ' }]) {
      const answer = await send(gateway.url, { headers })
      expectProblem(answer, { status: 401, title: 'Unauthorized' })
      expect(answer.headers['www-authenticate']).toBe('Bearer')
      expect(rateLimitFields(answer)).toEqual({})
    }
    expect(asked).toHaveLength(before)
    expect((await send(gateway.url, { headers: X })).status).toBe(200)
  })

  test('is told of a refusal by the fields alone if it asks with HEAD', async () => {
    const gateway = await startGateway({ RATE_LIMITS: '1/1m' })
    const head = { method: 'HEAD', headers: X }
    expect((await send(gateway.url, head)).status).toBe(200)
    const { status, headers, body } = await send(gateway.url, head)
    expect([status, headers['content-type'], body.length]).toEqual([429, 'application/problem+json', 0])
    expect(headers['retry-after']).toMatch(/^(?:5\d|60)$/)
  })
})

test('EXEMPT lets requests pass unlimited, uncounted and unsaid, whoever they are', async () => {
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
    await statuses(
      gateway,
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

  function start(): Promise<DirectGateway> {
    return startGateway({ ...redisBindings(), RATE_LIMITS: '100/1m', POLICIES: policies })
  }

  test('apply to the methods and paths that they match', async () => {
    const gateway = await start()
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
  })

  test('must all admit a request, or none is charged', async () => {
    const gateway = await start()
    const call = (token: string) =>
      send(gateway.url, { method: 'POST', path: '/login', headers: { ...IP, Authorization: `Bearer ${token}` } })
    expect([(await call('A')).status, (await call('B')).status]).toEqual([200, 200])
    const refused = await call('C')
    expectLimited(refused, ['login-1m'])
    expect(refused.headers.ratelimit).toMatch(/^"default-1m";r=100;t=60, "login-1m";r=0;t=\d+, "routes-1m";r=50;t=60$/)
    expect((await send(gateway.url, { headers: { Authorization: 'Bearer C' } })).headers.ratelimit).toBe(
      '"default-1m";r=99;t=60, "routes-1m";r=49;t=60',
    )
  })

  test('may cost more than one unit', async () => {
    const gateway = await start()
    const requests = ['/reports/1', '/reports/2', '/reports/3', '/'].map((path) => ({ path, headers: X }))
    expect(await statuses(gateway, requests)).toEqual([200, 200, 429, 200])
  })

  test('cannot be dodged by another spelling of the path', async () => {
    const gateway = await start()
    const login = (path: string) => send(gateway.url, { method: 'POST', path, headers: { ...X, ...IP } })
    expect([(await login('/login')).status, (await login('/login?x')).status]).toEqual([200, 200])
    const before = asked.length
    for (const path of [
      ...['/%6Cogin', '/%6cogin', '/x/../login', '/login/', '/./login', '/x/%2e%2e/login', '/x/.%2E/login'],
      ...[
        '/../login',
        '/x//../../login',
        '/x\\..\\login',
        '/login?/../x',
        '/login/.',
        'http://elsewhere.example/login',
        '/Login',
      ],
    ]) {
      expectLimited(await login(path), ['login-1m'])
    }
    // Where routes are counted one by one, a target that may be another one is refused.
    for (const path of [
      ...['//login', '///login//', '/\\login', '/login%2F', '/login;x=1', '/x%2F..%2Flogin', '/log%2Fin', '/%256Cogin'],
      '//elsewhere.example/login',
    ]) {
      expect((await login(path)).status).toBe(400)
    }
    expect(asked).toHaveLength(before)
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

describe('while the store is away', () => {
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

  test.each(Object.keys(STORES))('and %s: ON_STORE_ERROR=local holds the limits here', async (name) => {
    const gateway = await start((await STORES[name]?.()) ?? '', 'local')
    expect(await statuses(gateway, thrice)).toEqual([200, 200, 429])
    // One line a second, whatever the number of requests.
    await expect.poll(() => gateway.log.filter((line) => line.includes('"store_error"')).length).toBeGreaterThan(0)
    expect((await send(gateway.url, { headers: X })).headers['sluice-degraded']).toBe('local')
    expect(gateway.log.join('\n')).not.toMatch(/hush|Bearer|sluice:default/)
  })

  test.each(Object.keys(STORES))('and %s: ON_STORE_ERROR=closed lets nobody through', async (name) => {
    const gateway = await start((await STORES[name]?.()) ?? '', 'closed')
    const before = asked.length
    const answer = await send(gateway.url, { headers: X })
    expectProblem(answer, {
      type: `${PROBLEMS}#temporary-reduced-capacity`,
      title: 'Service Unavailable',
      status: 503,
    })
    expect(answer.headers['retry-after']).toBe('1')
    expect(answer.headers['sluice-degraded']).toBe('closed')
    expect(asked).toHaveLength(before)
  })

  test('ON_STORE_ERROR=open lets everybody through, with nothing to say of limits', async () => {
    const gateway = await start(REFUSING, 'open')
    expect(await statuses(gateway, thrice)).toEqual([200, 200, 200])
    const answer = await send(gateway.url, { headers: X })
    expect([rateLimitFields(answer), answer.headers['sluice-degraded']]).toEqual([{}, 'open'])
  })

  test.each(Object.keys(STORES))('and %s, health says so', async (name) => {
    const gateway = await start((await STORES[name]?.()) ?? '', 'local')
    const answer = await send(gateway.url, { path: '/_sluice/health' })
    expect([answer.status, json(answer)]).toEqual([
      200,
      { status: 'degraded', version, store: { kind: 'redis', reachable: false, rttMs: null, circuit: 'closed' } },
    ])
  })

  test('nothing is forgotten: once it is back, it is asked again', async () => {
    const token = 'hush-token'
    const first = await startRestFront({ redisPort: inject('redisPort'), token })
    const gateway = await startGateway({
      ...redisBindings(),
      UPSTASH_REDIS_REST_URL: first.url,
      UPSTASH_REDIS_REST_TOKEN: token,
      RATE_LIMITS: '2/1m',
    })
    const one = thrice.slice(0, 1)
    expect(await statuses(gateway, one)).toEqual([200])
    await first.stop()
    expect(await statuses(gateway, one)).toEqual([503])
    const second = await startRestFront({
      redisPort: inject('redisPort'),
      token,
      port: Number(new URL(first.url).port),
    })
    onTestFinished(() => second.stop())
    expect(await statuses(gateway, [...one, ...one])).toEqual([200, 429])
  })
})

describe('a gateway that is misconfigured', () => {
  test.each([
    ['UPSTREAM_URL', { UPSTREAM_URL: 'https://me:hush@api.example.com' }],
    ['IDENTITY_SECRET', { IDENTITY_SECRET: 'hush' }],
    ['UPSTASH_REDIS_REST_URL', { UPSTASH_REDIS_REST_TOKEN: 'hush' }],
    ['POLICIES', { POLICIES: '[{"name":"hush"}]' }],
  ])('answers 500 with the name of %s and no value', async (variable, bindings) => {
    const gateway = await startGateway(bindings)
    const before = asked.length
    for (const path of ['/', '/_sluice/health']) {
      expectProblem(await send(gateway.url, { path }), {
        status: 500,
        title: 'Misconfigured',
        detail: `${variable} is not as expected; the log says more.`,
      })
    }
    expect(asked).toHaveLength(before)
    await expect.poll(() => gateway.log).toEqual([expect.stringContaining(`"message":"${variable}`)])
    expect(gateway.log.join('\n')).not.toContain('hush')
  })
})

describe('/_sluice', () => {
  test('tells of the store in health', async () => {
    const memory = await send((await startGateway({})).url, { path: '/_sluice/health' })
    expect([memory.status, memory.headers['cache-control'], json(memory)]).toEqual([
      200,
      'no-store',
      {
        status: 'ok',
        version,
        store: { kind: 'memory', reachable: true, rttMs: expect.any(Number), circuit: 'closed' },
      },
    ])
    const redis = await send((await startGateway(redisBindings())).url, { path: '/_sluice/health' })
    expect([redis.status, json(redis)]).toEqual([
      200,
      {
        status: 'ok',
        version,
        store: { kind: 'redis', reachable: true, rttMs: expect.any(Number), circuit: 'closed' },
      },
    ])
  })

  test('never reaches the upstream, however it is spelt, and is neither limited nor asked for a token', async () => {
    const gateway = await startGateway({ RATE_LIMITS: '1/1m', ANONYMOUS: 'deny' })
    const before = asked.length
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
      expectProblem(await send(gateway.url, request), { status: 404, title: 'Not Found' })
    }
    expect(asked).toHaveLength(before)
  })
})
