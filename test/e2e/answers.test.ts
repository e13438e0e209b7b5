/** What the gateway itself answers: to pages of other origins, in an operator's words, and about a caller's limits. */
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { type DirectGateway, startDirectGateway } from '../support/direct-gateway.ts'
import { redisBindings } from '../support/gateway.ts'
import { type Answer, json, type Sent, send } from '../support/http-client.ts'
import { ADMIN_TOKEN, operate } from '../support/operator.ts'
import { share } from '../support/share.ts'
import { startUpstream } from '../support/upstream.ts'

const PAGE = 'https://app.example.com'
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8'
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded'

/** Rules are active after a moment. */
const SOON = { timeout: 10_000 }

/** Requests that have reached the API, as `METHOD /path`. */
const requested: string[] = []
const upstream = share(() =>
  startUpstream(({ method, url, headers }, response) => {
    requested.push(`${method} ${url}`)
    const own = headers['x-answer-with']
    response.writeHead(url?.startsWith('/moved') ? 302 : 200, own ? JSON.parse(String(own)) : {}).end('hello')
  }),
)

/** A caller of whom nobody else knows. */
let callers = 0
const newCaller = () => ({ Authorization: `Bearer caller-${++callers}` })

const gateway = share(() =>
  startDirectGateway({
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
          name: 'used-up',
          limits: '1/1h',
          match: '/used-up',
          refusal: { status: 402, html: '<p>Upgrade</p>' },
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
  }),
)

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

function corsFields({ headers }: Answer): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => /^access-control-|^vary$/.test(name)))
}

const OWN = {
  'access-control-allow-origin': PAGE,
  'access-control-allow-credentials': 'true',
  'access-control-expose-headers': 'RateLimit, RateLimit-Policy, Retry-After, Sluice-Degraded',
  vary: 'Origin',
}

describe('to a page of another origin', () => {
  test.each<[string, Sent, number, object]>([
    ['a refusal', {}, 429, OWN],
    [
      'a refusal, of another origin',
      { headers: { Origin: 'http://localhost:5173' } },
      429,
      { ...OWN, 'access-control-allow-origin': 'http://localhost:5173' },
    ],
    ['a refusal, of an origin that is not named', { headers: { Origin: 'https://evil.example' } }, 429, {}],
    ['a refusal, of the origin in other letters', { headers: { Origin: PAGE.toUpperCase() } }, 429, {}],
    ['a refusal, of an origin that begins alike', { headers: { Origin: `${PAGE}.evil.example` } }, 429, {}],
    ['a refusal, of no origin', { headers: { Origin: 'null' } }, 429, {}],
    ['the state of its limits', { path: '/_sluice/limits' }, 200, OWN],
    ['health', { path: '/_sluice/health' }, 200, OWN],
    ['a path that cannot be read', { path: '/a%2F..%2Fb' }, 400, OWN],
    ['a method that is not forwarded', { method: 'TRACE' }, 405, OWN],
    ['an unknown path of the gateway', { path: '/_sluice/limits/x' }, 404, {}],
    ['the admin API', { path: '/_sluice/admin/status' }, 401, {}],
    ['the admin API, spelt otherwise', { path: '/%5Fsluice/./admin/status' }, 401, {}],
    [
      'the admin API, for an operator',
      { path: '/_sluice/admin/status', headers: { Authorization: `Bearer ${ADMIN_TOKEN}` } },
      200,
      {},
    ],
    ['the dashboard', { path: '/_sluice/' }, 200, {}],
  ])('%s', async (name, sent, status, fields) => {
    const headers = { Origin: PAGE, ...(status === 429 ? newCaller() : {}), ...sent.headers }
    const request = { ...sent, headers }
    const answer = status === 429 ? await refuse(request) : await send(gateway.url, request)
    expect([name, answer.status, corsFields(answer)]).toEqual([name, status, fields])
  })

  test('a request without an origin is answered as ever', async () => {
    expect(corsFields(await refuse({ headers: newCaller() }))).toEqual({})
  })

  const EXPOSED = OWN['access-control-expose-headers']
  test.each<[object, object]>([
    [{}, {}],
    [{ Vary: 'Accept' }, { vary: 'Accept' }],
    [
      { 'Access-Control-Allow-Origin': 'https://other.example' },
      { 'access-control-allow-origin': 'https://other.example' },
    ],
    [
      { 'Access-Control-Allow-Origin': '*' },
      { 'access-control-allow-origin': '*', 'access-control-expose-headers': EXPOSED },
    ],
    [
      { 'Access-Control-Allow-Origin': PAGE, 'Access-Control-Expose-Headers': 'X-Total', Vary: 'Origin' },
      { 'access-control-allow-origin': PAGE, 'access-control-expose-headers': `X-Total, ${EXPOSED}`, vary: 'Origin' },
    ],
  ])('the API keeps its own fields %j', async (own, expected) => {
    const answer = await send(gateway.url, {
      headers: { ...newCaller(), Origin: PAGE, 'X-Answer-With': JSON.stringify(own) },
    })
    expect([answer.status, corsFields(answer)]).toEqual([200, expected])
  })

  test('an origin that is not named gets what the API says and no more', async () => {
    const own = { 'Access-Control-Allow-Origin': '*' }
    const headers = { ...newCaller(), Origin: 'https://evil.example', 'X-Answer-With': JSON.stringify(own) }
    expect(corsFields(await send(gateway.url, { headers }))).toEqual({ 'access-control-allow-origin': '*' })
  })

  test('an API that cannot be reached', async () => {
    const own = await startOwn({ UPSTREAM_URL: 'http://127.0.0.1:1', CORS_ORIGINS: PAGE })
    const answer = await send(own.url, { headers: { Origin: PAGE } })
    expect([answer.status, corsFields(answer)]).toEqual([502, OWN])
  })

  test('* allows any origin, and none that sends cookies', async () => {
    const own = await startOwn({ RATE_LIMITS: '1/1h', CORS_ORIGINS: `*, ${PAGE}`, RATELIMIT_HEADERS: 'x-ratelimit' })
    const any = {
      'access-control-allow-origin': '*',
      'access-control-expose-headers':
        'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, Sluice-Degraded',
      vary: 'Origin',
    }
    expect(corsFields(await refuse({ headers: { Origin: 'null' } }, own))).toEqual(any)
    expect(corsFields(await refuse({ headers: { Origin: PAGE } }, own))).toEqual({
      ...any,
      'access-control-allow-origin': PAGE,
      'access-control-allow-credentials': 'true',
    })
  })

  test('without CORS_ORIGINS, nothing', async () => {
    const own = await startOwn({ RATE_LIMITS: '1/1h' })
    const preflight = { method: 'OPTIONS', headers: { Origin: PAGE, 'Access-Control-Request-Method': 'POST' } }
    expect((await send(own.url, preflight)).status).toBe(200)
    const refused = await send(own.url, preflight)
    expect([refused.status, corsFields(refused)]).toEqual([429, {}])
  })
})

describe('a preflight', () => {
  const PREFLIGHT = { Origin: PAGE, 'Access-Control-Request-Method': 'PUT', 'X-Answer-With': '{"X-Api":"1"}' }
  const IP = { 'CF-Connecting-IP': '203.0.113.9' }

  test('reaches the API uncounted', async () => {
    requested.length = 0
    for (let i = 0; i < 5; i++) {
      // Some servers say how long no body is.
      const headers = { ...PREFLIGHT, ...IP, ...(i % 2 === 1 && { 'Content-Length': '0' }) }
      const answer = await send(gateway.url, { method: 'OPTIONS', path: '/a', headers })
      expect([answer.status, answer.headers['x-api'], answer.headers.ratelimit]).toEqual([200, '1', undefined])
    }
    expect(requested).toEqual(Array(5).fill('OPTIONS /base/a'))
    const counted = await send(gateway.url, { headers: IP })
    expect(counted.headers.ratelimit).toContain('"default-1h";r=1;')
  })

  test('counts by policies that name the method', async () => {
    const sent = { method: 'OPTIONS', path: '/named', headers: { ...PREFLIGHT, 'CF-Connecting-IP': '203.0.113.10' } }
    const admitted = await send(gateway.url, sent)
    expect([admitted.status, admitted.headers.ratelimit]).toEqual([200, '"preflights-1h";r=0;t=3600'])
    const refused = await send(gateway.url, sent)
    expect([refused.status, json(refused)]).toMatchObject([429, { 'violated-policies': ['preflights-1h'] }])
  })

  test.each<[string, Sent]>([
    ['credentials', { headers: { Authorization: 'Bearer x' } }],
    ['a cookie', { headers: { Cookie: 'a=b' } }],
    ['another method', { method: 'GET' }],
    ['another method in a header', { headers: { 'X-HTTP-Method-Override': 'DELETE' } }],
    ['another method in the query', { path: '/a?_method=DELETE' }],
    ['a body', { body: 'a', headers: { 'Content-Length': '1' } }],
    ['a path that can be read in two ways', { path: '/a%20' }],
    ['an origin that is not named', { headers: { Origin: 'https://evil.example' } }],
    ['no method to ask for', { headers: { 'Access-Control-Request-Method': [] } }],
  ])('with %s is none, and counts', async (name, sent) => {
    const headers = { ...PREFLIGHT, 'CF-Connecting-IP': `198.51.100.${++callers}`, ...sent.headers }
    const request = { method: 'OPTIONS', path: '/a', ...sent, headers }
    const refused = await refuse(request)
    expect([name, refused.status]).toEqual([name, 429])
  })

  test('of a blocked caller is refused', async () => {
    const IP = { 'CF-Connecting-IP': '203.0.113.66' }
    const body = { target: { ip: IP['CF-Connecting-IP'] }, reason: 'secret reason' }
    expect((await operate(gateway.url, '/block', { body })).status).toBe(200)
    const sent = { method: 'OPTIONS', headers: { ...PREFLIGHT, ...IP } }
    await expect.poll(async () => (await send(gateway.url, sent)).status, SOON).toBe(403)
    const reported = await send(gateway.url, { path: '/_sluice/limits', headers: IP })
    expect([reported.status, json(reported)]).toEqual([
      403,
      expect.objectContaining({ code: 'blocked', detail: 'Access denied.' }),
    ])
  })

  test('for the limits of a caller is answered', async () => {
    const answer = await send(gateway.url, { method: 'OPTIONS', path: '/_sluice/limits', headers: PREFLIGHT })
    expect([answer.status, corsFields(answer)]).toEqual([
      204,
      {
        ...OWN,
        'access-control-allow-methods': 'GET, HEAD',
        'access-control-allow-headers': '*, Authorization, x-api-key, x-id',
      },
    ])
  })
})

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
  function readFields({ headers }: Answer) {
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
    expect([answer.status, readFields(answer)]).toEqual([429, JSON_FIELDS])
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
      expect(readFields(answer)).toEqual({ ...html, ...COMMON })
      expect(answer.body.toString()).toBe(`<p>${answer.headers['retry-after']} seconds, {limit}</p>`)
    } else {
      expect(readFields(answer)).toEqual(JSON_FIELDS)
      expect(json(answer)).toEqual({ ...problem, detail: 'Wait.' })
    }
  })

  test('has the status that the policy says, and its title, and waits as ever', async () => {
    const headers = newCaller()
    const answer = await refuse({ path: '/used-up', headers })
    expect([answer.status, readFields(answer)]).toEqual([402, JSON_FIELDS])
    expect(json(answer)).toEqual({ ...problem, status: 402, title: 'Payment Required' })
    const page = await refuse({ path: '/used-up', headers: { ...headers, Accept: BROWSER } })
    expect([page.status, readFields(page), page.body.toString()]).toEqual([
      402,
      { ...html, ...COMMON },
      '<p>Upgrade</p>',
    ])
  })

  test('redirects browsers, and nobody else', async () => {
    const headers = newCaller()
    const answer = await refuse({ path: '/upgrade', headers: { ...headers, Accept: BROWSER } })
    expect(answer.status).toBe(303)
    expect(readFields(answer)).toEqual({ ...html, ...COMMON, location: 'https://example.com/upgrade?a=%20#b' })
    expect(answer.body.toString()).toBe('')
    const reported = await refuse({ path: '/upgrade', headers })
    expect([reported.status, readFields(reported)]).toEqual([429, JSON_FIELDS])
  })

  test('for a higher priority speaks, too, and keeps its status', async () => {
    const headers = newCaller()
    const answer = await refuse({ path: '/reserved', headers: { ...headers, Accept: BROWSER } })
    expect([answer.status, answer.body.toString()]).toEqual([503, '<p>Later</p>'])
    const reported = await refuse({ path: '/reserved', headers })
    expect([reported.status, json(reported)]).toEqual([
      503,
      expect.objectContaining({ code: 'deprioritized', detail: 'Reserved.' }),
    ])
  })

  test('by a policy without words is as ever, and so is one that is about no limit', async () => {
    const plain = await refuse({ headers: { ...newCaller(), Accept: BROWSER } })
    expect([plain.status, readFields(plain)]).toEqual([429, JSON_FIELDS])
    const unidentified = await send(gateway.url, { path: '/denied', headers: { ...newCaller(), Accept: BROWSER } })
    expect([unidentified.status, unidentified.headers['content-type']]).toEqual([401, 'application/problem+json'])
  })

  test('speaks by rules at run time', async () => {
    const own = await startOwn({ ...redisBindings(), RULES: 'on', RULES_REFRESH_MS: 100, ADMIN_TOKEN })
    const readStatus = async (refusal: object) => {
      const body = { policies: [{ name: 'p', limits: '1/1h', refusal }] }
      return (await operate(own.url, '/policies/push', { body })).status
    }
    expect(await readStatus({ html: 'x'.repeat(10_001) })).toBe(400)
    expect(await readStatus({ redirect: 'javascript:alert(1)' })).toBe(400)
    expect(await readStatus({ detail: 'By a rule.' })).toBe(200)
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
  const findLimits = async (...request: Parameters<typeof ask>) => {
    const answer = await ask(...request)
    expect([answer.status, answer.headers['cache-control']]).toEqual([200, 'no-store'])
    return (json(answer) as { limits: { name: string; remaining: number }[] }).limits.map(({ name, remaining }) => [
      name,
      remaining,
    ])
  }

  test('reports what is left, and uses nothing', async () => {
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
    expect(await findLimits(headers)).toEqual([['default-1h', 1]])
    await refuse({ headers })
    expect(json(await ask(headers))).toEqual({
      limits: [{ ...untouched, remaining: 0, resetMs: expect.any(Number), retryAfterMs: expect.any(Number) }],
    })
    expect((await ask(headers, '', 'HEAD')).body.length).toBe(0)
  })

  test('is about a path and a method, by headers alone', async () => {
    const headers = { ...newCaller(), 'X-Api-Key': `k${callers}` }
    expect(await findLimits(headers, '?path=/orders&method=POST')).toEqual([
      ['default-1h', 2],
      ['orders-1h', 1],
    ])
    expect(await findLimits(headers, '?path=/orders')).toEqual([['default-1h', 2]])
    await send(gateway.url, { method: 'POST', path: '/orders', headers })
    expect(await findLimits(headers, '?path=/ORDERS/&method=POST')).toEqual([
      ['default-1h', 1],
      ['orders-1h', 0],
    ])
    expect(await findLimits({ ...headers, 'X-Api-Key': 'other' }, '?path=/orders&method=POST')).toEqual([
      ['default-1h', 1],
      ['orders-1h', 1],
    ])
    expect(await findLimits(headers, '?path=/search?q=1')).toEqual([['default-1h', 1]])
    expect(await findLimits(headers, '?path=/form&method=POST')).toEqual([['default-1h', 1]])
    expect(await findLimits(headers, '?path=/slots')).toEqual([
      ['default-1h', 1],
      ['slots', 3],
    ])
  })

  test('logs no refusal by a policy in shadow mode', async () => {
    const headers = newCaller()
    await send(gateway.url, { path: '/shadow', headers })
    const before = gateway.log.length
    expect(await findLimits(headers, '?path=/shadow')).toEqual([
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

describe('with REWRITE_LOCATION', () => {
  const follow = async (fields: object, through = gateway) => {
    const headers = { ...newCaller(), Host: 'gw.example:8443', 'X-Answer-With': JSON.stringify(fields) }
    return (await send(through.url, { path: '/moved/here?x=1', headers })).headers
  }

  test("a redirect to the API's own host stays with the gateway", async () => {
    const {
      location,
      'content-location': content,
      'set-cookie': cookies,
    } = await follow({
      Location: `${upstream.url}/base/new?a=%2F#b`,
      'Content-Location': '/base/x',
      'Set-Cookie': 'a=b; Domain=127.0.0.1',
    })
    expect([location, content]).toEqual(['http://gw.example:8443/new?a=%2F#b', 'http://gw.example:8443/x'])
    expect(cookies).toEqual(['a=b; Domain=127.0.0.1'])
  })

  test('without it, it passes', async () => {
    const own = await startOwn({})
    expect((await follow({ Location: `${upstream.url}/new` }, own)).location).toBe(`${upstream.url}/new`)
  })
})
