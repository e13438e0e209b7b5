/** What the gateway itself answers: to pages of other origins, in an operator's words, and about a caller's limits. */
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { type DirectGateway, startDirectGateway } from '../support/direct-gateway.ts'
import { redisBindings } from '../support/gateway.ts'
import { type Answer, json, type Sent, send } from '../support/http-client.ts'
import { ADMIN_TOKEN, operate } from '../support/operator.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'

const PAGE = 'https://app.example.com'
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8'
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded'

/** Rules are active after a moment. */
const SOON = { timeout: 10_000 }

/** Requests that have reached the API, as `METHOD /path`. */
const asked: string[] = []
let upstream: Upstream
let gateway: DirectGateway

/** A caller of whom nobody else knows. */
let callers = 0
const newCaller = () => ({ Authorization: `Bearer caller-${++callers}` })

beforeAll(async () => {
  upstream = await startUpstream(({ method, url, headers }, response) => {
    asked.push(`${method} ${url}`)
    const own = headers['x-answer-with']
    response.writeHead(url?.startsWith('/moved') ? 302 : 200, own ? JSON.parse(String(own)) : {}).end('hello')
  })
  gateway = await startDirectGateway({
    bundle: inject('bundle'),
    bindings: {
      UPSTREAM_URL: `${upstream.url}/base`,
      CORS_ORIGINS: `${PAGE}, http://localhost:5173`,
      SELF_SERVICE: 'on',
      REWRITE_LOCATION: 'on',
      RULES: 'on',
      RULES_REFRESH_MS: 100,
      ADMIN_TOKEN,
      RATE_LIMITS: '2/1h',
      POLICIES: [
        { name: 'orders', limits: '1/1h', match: 'POST /orders', by: 'header:x-api-key' },
        { name: 'search', limits: '1/1h', match: '/search', by: 'query:q' },
        { name: 'form', limits: '1/1h', match: '/form', by: 'form:user' },
        { name: 'shadow', limits: '1/1h', match: '/shadow', mode: 'shadow' },
        { name: 'slots', limits: '3', match: '/slots', algorithm: 'concurrency' },
        { name: 'preflights', limits: '1/1h', match: 'OPTIONS /named', by: 'ip' },
        { name: 'plain', limits: '1/1h', match: '/words' },
        {
          name: 'words',
          limits: '1/1h',
          match: '/words',
          refusal: { type: 'https://docs.example.com/limits#free', detail: 'Wait {retry_after} s.' },
        },
        {
          name: 'page',
          limits: '1/1h',
          match: '/page',
          refusal: { html: '<p>{retry_after} seconds, {limit}</p>', detail: 'Wait.' },
        },
        {
          name: 'moved',
          limits: '1/1h',
          match: '/upgrade',
          refusal: { redirect: 'https://example.com/upgrade?a=%20#b' },
        },
        {
          name: 'partner',
          limits: '2/1h',
          match: '/reserved',
          priority: 'default',
          reserve: { critical: 0.5 },
          refusal: { html: '<p>Later</p>', detail: 'Reserved.' },
        },
        {
          name: 'failing',
          limits: '1/1h',
          match: '/denied',
          anonymous: 'deny',
          by: 'header:x-id',
          refusal: { html: 'x' },
        },
      ],
    },
  })
})
afterAll(() => Promise.all([gateway.stop(), upstream.stop()]))

async function startOwn(bindings: Readonly<Record<string, unknown>>): Promise<DirectGateway> {
  const own = await startDirectGateway({
    bundle: inject('bundle'),
    bindings: { UPSTREAM_URL: upstream.url, ...bindings },
  })
  onTestFinished(() => own.stop())
  return own
}

/** Sends a request until it is refused. */
async function refuse(sent: Sent, through = gateway): Promise<Answer> {
  for (let attempt = 0; attempt < 5; attempt++) {
    const answer = await send(through.url, sent)
    if (answer.status !== 200) return answer
  }
  throw new Error('it is not refused')
}

describe('a refusal', () => {
  const problem = {
    type: QUOTA_EXCEEDED,
    title: 'Too Many Requests',
    status: 429,
    code: 'limit_exceeded',
    detail: expect.any(String),
    'violated-policies': expect.any(Array),
    retry_after_ms: expect.any(Number),
  }
  const html = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy':
      "default-src 'none'; style-src 'unsafe-inline'; img-src https: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
  }

  /** All fields but those of the connection. */
  function fieldsOf({ headers }: Answer) {
    const {
      date: _,
      connection: __,
      'keep-alive': ___,
      'content-length': ____,
      'transfer-encoding': _____,
      ...fields
    } = headers
    return fields
  }
  const LIMITS = {
    ratelimit: expect.any(String),
    'ratelimit-policy': expect.any(String),
    'retry-after': expect.stringMatching(/^\d+$/),
  }
  const COMMON = { 'cache-control': 'no-store', ...LIMITS }
  const JSON_FIELDS = { 'content-type': 'application/problem+json', ...COMMON }

  test('says what the first policy that refuses and has words says', async () => {
    const answer = await refuse({ path: '/words', headers: newCaller() })
    expect([answer.status, fieldsOf(answer)]).toEqual([429, JSON_FIELDS])
    expect(json(answer)).toEqual({
      ...problem,
      type: 'https://docs.example.com/limits#free',
      detail: `Wait ${answer.headers['retry-after']} s.`,
      'violated-policies': ['plain-1h', 'words-1h'],
    })
  })

  test.each([
    [BROWSER, 'html'],
    ['text/html', 'html'],
    ['text/*;q=0.5, application/json;q=0.4', 'html'],
    ['TEXT/HTML; Q=0.9 , */* ; q=0.1', 'html'],
    ['*/*', 'json'],
    ['application/json, text/plain, */*', 'json'],
    ['text/html, application/json', 'json'],
    ['text/html;q=0.5, application/problem+json;q=0.5', 'json'],
    ['text/html;q=0', 'json'],
    ['text/html;q=x', 'json'],
    ['text/html;q=0.1, */*', 'json'],
    ['', 'json'],
    ['text/htmlx', 'json'],
    ['garbage;;,=;q', 'json'],
  ])('to Accept: %s is %s', async (accept, kind) => {
    const answer = await refuse({ path: '/page', headers: { ...newCaller(), Accept: accept } })
    expect(answer.status).toBe(429)
    if (kind === 'html') {
      expect(fieldsOf(answer)).toEqual({ ...html, ...COMMON })
      expect(answer.body.toString()).toBe(`<p>${answer.headers['retry-after']} seconds, {limit}</p>`)
    } else {
      expect(fieldsOf(answer)).toEqual(JSON_FIELDS)
      expect(json(answer)).toEqual({ ...problem, detail: 'Wait.' })
    }
  })

  test('redirects browsers, and nobody else', async () => {
    const headers = newCaller()
    const answer = await refuse({ path: '/upgrade', headers: { ...headers, Accept: BROWSER } })
    expect(answer.status).toBe(303)
    expect(fieldsOf(answer)).toEqual({ ...html, ...COMMON, location: 'https://example.com/upgrade?a=%20#b' })
    expect(answer.body.toString()).toBe('')
    const told = await refuse({ path: '/upgrade', headers })
    expect([told.status, fieldsOf(told)]).toEqual([429, JSON_FIELDS])
  })

  test('for a higher priority speaks, too, and keeps its status', async () => {
    const headers = newCaller()
    const answer = await refuse({ path: '/reserved', headers: { ...headers, Accept: BROWSER } })
    expect([answer.status, answer.body.toString()]).toEqual([503, '<p>Later</p>'])
    const told = await refuse({ path: '/reserved', headers })
    expect([told.status, json(told)]).toEqual([
      503,
      expect.objectContaining({ code: 'deprioritized', detail: 'Reserved.' }),
    ])
  })

  test('by a policy without words is as ever, and so is one that is about no limit', async () => {
    const plain = await refuse({ headers: { ...newCaller(), Accept: BROWSER } })
    expect([plain.status, fieldsOf(plain)]).toEqual([429, JSON_FIELDS])
    const unidentified = await send(gateway.url, { path: '/denied', headers: { ...newCaller(), Accept: BROWSER } })
    expect([unidentified.status, unidentified.headers['content-type']]).toEqual([401, 'application/problem+json'])
  })

  test('speaks by rules at run time', async () => {
    const own = await startOwn({ ...redisBindings(), RULES: 'on', RULES_REFRESH_MS: 100, ADMIN_TOKEN })
    const statusOf = async (refusal: object) => {
      const body = { policies: [{ name: 'p', limits: '1/1h', refusal }] }
      return (await operate(own.url, '/policies/push', { body })).status
    }
    expect(await statusOf({ html: 'x'.repeat(10_001) })).toBe(400)
    expect(await statusOf({ redirect: 'javascript:alert(1)' })).toBe(400)
    expect(await statusOf({ detail: 'By a rule.' })).toBe(200)
    await expect.poll(async () => (await send(own.url)).body.toString(), SOON).toContain('By a rule.')
  })
})

describe('/_sluice/limits', () => {
  const ask = (headers: Sent['headers'], query = '', method = 'GET') =>
    send(gateway.url, {
      method,
      path: `/_sluice/limits${query}`,
      headers: { 'CF-Connecting-IP': `192.0.2.${++callers % 250}`, ...headers },
    })
  const limitsOf = async (...request: Parameters<typeof ask>) => {
    const answer = await ask(...request)
    expect([answer.status, answer.headers['cache-control']]).toEqual([200, 'no-store'])
    return (json(answer) as { limits: { name: string; remaining: number }[] }).limits.map(({ name, remaining }) => [
      name,
      remaining,
    ])
  }

  test('tells what is left, and spends nothing', async () => {
    const headers = newCaller()
    const untouched = {
      policy: 'default',
      name: 'default-1h',
      limit: 2,
      windowMs: 3_600_000,
      remaining: 2,
      resetMs: 3_600_000,
      retryAfterMs: 0,
    }
    for (let i = 0; i < 3; i++) {
      const answer = await ask(headers)
      expect([answer.status, json(answer)]).toEqual([200, { limits: [untouched] }])
      expect([answer.headers['content-type'], answer.headers['ratelimit-policy'], answer.headers.ratelimit]).toEqual([
        'application/json',
        '"default-1h";q=2;w=3600',
        '"default-1h";r=2;t=3600',
      ])
    }
    await send(gateway.url, { headers })
    expect(await limitsOf(headers)).toEqual([['default-1h', 1]])
    await refuse({ headers })
    expect(json(await ask(headers))).toEqual({
      limits: [{ ...untouched, remaining: 0, resetMs: expect.any(Number), retryAfterMs: expect.any(Number) }],
    })
    expect((await ask(headers, '', 'HEAD')).body.length).toBe(0)
  })

  test('is about a path and a method, by headers alone', async () => {
    const headers = { ...newCaller(), 'X-Api-Key': `k${callers}` }
    expect(await limitsOf(headers, '?path=/orders&method=POST')).toEqual([
      ['default-1h', 2],
      ['orders-1h', 1],
    ])
    expect(await limitsOf(headers, '?path=/orders')).toEqual([['default-1h', 2]])
    await send(gateway.url, { method: 'POST', path: '/orders', headers })
    expect(await limitsOf(headers, '?path=/ORDERS/&method=POST')).toEqual([
      ['default-1h', 1],
      ['orders-1h', 0],
    ])
    expect(await limitsOf({ ...headers, 'X-Api-Key': 'other' }, '?path=/orders&method=POST')).toEqual([
      ['default-1h', 1],
      ['orders-1h', 1],
    ])
    expect(await limitsOf(headers, '?path=/search?q=1')).toEqual([['default-1h', 1]])
    expect(await limitsOf(headers, '?path=/form&method=POST')).toEqual([['default-1h', 1]])
    expect(await limitsOf(headers, '?path=/slots')).toEqual([
      ['default-1h', 1],
      ['slots', 3],
    ])
  })

  test('logs no refusal by a policy in shadow mode', async () => {
    const headers = newCaller()
    await send(gateway.url, { path: '/shadow', headers })
    const before = gateway.log.length
    expect(await limitsOf(headers, '?path=/shadow')).toEqual([
      ['default-1h', 1],
      ['shadow-1h', 0],
    ])
    expect(gateway.log.slice(before)).toEqual([])
  })

  test.each([
    ['?path=x', 400, 'invalid_input'],
    ['?path=https://evil.example/', 400, 'invalid_input'],
    ['?method=get', 400, 'invalid_input'],
    ['?method=', 400, 'invalid_input'],
    ['?identity=1', 400, 'invalid_input'],
    ['?__proto__=1', 400, 'invalid_input'],
    ['?path=//evil.example/orders', 400, 'ambiguous_path'],
    ['?path=/denied', 401, 'identity_missing'],
  ])('%s is %d %s', async (query, status, code) => {
    const answer = await ask(newCaller(), query)
    expect([answer.status, json(answer)]).toEqual([status, expect.objectContaining({ code })])
  })

  test('takes GET and HEAD', async () => {
    const answer = await ask({}, '', 'POST')
    expect([answer.status, answer.headers.allow]).toEqual([405, 'GET, HEAD, OPTIONS'])
  })

  test('answers an address 60 times a minute', async () => {
    const headers = { ...newCaller(), 'CF-Connecting-IP': '203.0.113.200' }
    const statuses = await Promise.all(Array.from({ length: 61 }, async () => (await ask(headers)).status))
    expect(statuses.toSorted()).toEqual([...Array(60).fill(200), 429])
    const answer = await ask({ ...newCaller(), 'CF-Connecting-IP': '203.0.113.200' })
    expect(json(answer)).toMatchObject({ code: 'limit_exceeded', retry_after_ms: expect.any(Number) })
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
  })

  test('is not there unless it is turned on', async () => {
    const own = await startOwn({})
    const answer = await send(own.url, { path: '/_sluice/limits' })
    expect([answer.status, json(answer)]).toEqual([404, expect.objectContaining({ code: 'not_found' })])
  })
})
