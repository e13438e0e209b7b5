import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { get, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { openCalendar } from '../../src/core/options/calendar.ts'
import { startEchoUpstream } from '../../tools/echo-upstream.ts'
import type { DirectGateway } from '../support/direct-gateway.ts'
import { startGateway } from '../support/gateway.ts'
import { exchange } from '../support/raw-http.ts'
import { share } from '../support/share.ts'
import { startUpstream } from '../support/upstream.ts'

/** What the upstream does with the next requests. */
let respond: (response: ServerResponse, body: string, url: string) => void
const upstream = share(() =>
  startUpstream(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    respond(response, body, request.url ?? '')
  }),
)

type Init = RequestInit & { headers?: Record<string, string> }

const gateways: DirectGateway[] = []
afterEach(async () => {
  await Promise.all(gateways.splice(0).map((gateway) => gateway.stop()))
})

beforeEach(() => {
  respond = (response, body, url) => response.end(`${url} ${body}`)
})

/** Policies of the tests that share a gateway, each for paths of its own. */
const SHARED: object[] = []
let shared: DirectGateway | undefined
afterAll(() => shared?.stop())

/** Asks the gateway that has all policies of SHARED. */
async function call(path: string, init: Init = {}): Promise<Response> {
  shared ??= await startGateway({ UPSTREAM_URL: upstream.url, POLICIES: SHARED })
  return fetch(new URL(path, shared.url), init)
}

/** A gateway for one test. */
async function gatewayWith(policies: unknown, bindings: Record<string, unknown> = {}) {
  const gateway = await startGateway({ UPSTREAM_URL: upstream.url, POLICIES: policies, ...bindings })
  gateways.push(gateway)
  return (path: string, init: Init = {}) => fetch(new URL(path, gateway.url), init)
}

const as = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } })

async function statuses(count: number, call: () => Promise<Response>): Promise<number[]> {
  const seen: number[] = []
  for (let i = 0; i < count; i++) {
    const response = await call()
    await response.arrayBuffer()
    seen.push(response.status)
  }
  return seen
}

const ALGORITHMS = {
  'sliding-window': { limits: '3/1h' },
  'sorted-set': { limits: '3/1h' },
  quota: { limits: '3/1h, 10/1d' },
  'fixed-window': { limits: '3/53w' },
  'token-bucket': { limits: '1/1h', burst: 3 },
}
for (const [name, settings] of Object.entries(ALGORITHMS)) {
  SHARED.push({ name, algorithm: name, match: `/${name}`, ...settings })
}
test('every algorithm with windows admits three and refuses the fourth, with exact fields', async () => {
  for (const algorithm of Object.keys(ALGORITHMS)) {
    const path = `/${algorithm}`
    expect(await statuses(3, () => call(path, as('a'))), algorithm).toEqual([200, 200, 200])
    const refused = await call(path, as('a'))
    expect(refused.status, algorithm).toBe(429)
    const { retry_after_ms } = (await refused.json()) as { retry_after_ms: number }
    expect(refused.headers.get('Retry-After')).toBe(String(Math.ceil(retry_after_ms / 1000)))
    expect(refused.headers.get('RateLimit')).toMatch(new RegExp(`^"${algorithm}-\\w+";r=0;t=\\d+`))
    expect(await statuses(1, () => call(path, as('b'))), algorithm).toEqual([200])
  }
})

test('rules of five kinds are decided at once: if one refuses, none is charged', async () => {
  const call = await gatewayWith([
    { name: 'burst', limits: '10/1h' },
    { name: 'day', limits: '1000/1d', algorithm: 'quota' },
    // Windows of the clock and refills that no test meets.
    { name: 'address', limits: '50/52w', by: 'ip', algorithm: 'fixed-window' },
    { name: 'open', limits: '20', algorithm: 'concurrency' },
    { name: 'fleet', limits: '500/4w', by: 'global', algorithm: 'token-bucket' },
    { name: 'narrow', limits: '1/1h', match: '/narrow' },
  ])
  const readFields = async (path: string) => {
    const response = await call(path, as('a'))
    await response.arrayBuffer()
    return [response.status, response.headers.get('RateLimit')?.replaceAll(/;t=\d+/g, '')]
  }
  const left = (count: number) => [
    `"burst-1h";r=${count}`,
    `"day-1d";r=${count + 990}`,
    `"address-52w";r=${count + 40}`,
    '"open";r=19',
    `"fleet-4w";r=${count + 490}`,
  ]
  expect(await readFields('/narrow')).toEqual([200, [...left(9), '"narrow-1h";r=0'].join(', ')])
  const refused = [...left(9), '"narrow-1h";r=0'].join(', ').replace('"open";r=19', '"open";r=20')
  expect(await readFields('/narrow')).toEqual([429, refused])
  expect(await readFields('/')).toEqual([200, left(8).join(', ')])
})

SHARED.push({
  ...{ name: 'plan', algorithm: 'quota', limits: '3/month, 100/year', match: '/plan' },
  ...{ time_zone: 'America/Sao_Paulo', starts: 31 },
})
test('a quota by the month refuses until the month of its time zone ends', async () => {
  const { findEnds } = openCalendar('month', 'America/Sao_Paulo', 31)
  expect(await statuses(3, () => call('/plan', as('a')))).toEqual([200, 200, 200])
  const sentMs = Date.now()
  const refused = await call('/plan', as('a'))
  const { retry_after_ms: retryAfterMs, ...problem } = (await refused.json()) as Record<string, unknown>
  const [endMs = 0] = findEnds(sentMs).slice(1)
  expect(endMs - (retryAfterMs as number)).toBeGreaterThanOrEqual(sentMs)
  expect(endMs - (retryAfterMs as number)).toBeLessThanOrEqual(Date.now())
  expect(problem).toMatchObject({
    detail: 'Rate limit exceeded: 3 requests per month.',
    'violated-policies': ['plan-month'],
  })
  expect(refused.headers.get('RateLimit-Policy')).toBe('"plan-month";q=3, "plan-year";q=100')
  expect(refused.headers.get('RateLimit')).toMatch(/^"plan-month";r=0;t=\d+, "plan-year";r=97;t=\d+$/)
})

const BY_CALLER = { by: 'header:x-caller', match: '/ban' }
SHARED.push(
  { name: 'api', limits: '9/1h', algorithm: 'quota', ...BY_CALLER },
  { name: 'ban', limits: '3/1h', penalty: '1d', cost: 'header:x-cost', max_cost: 3, ...BY_CALLER },
)
test('penalty keeps a refused caller out, whatever is left, and says for how long', async () => {
  const by = (caller: string, cost = '1') => call('/ban', { headers: { 'X-Caller': caller, 'X-Cost': cost } })
  expect(await statuses(1, () => by('a', '2'))).toEqual([200])
  const refused = await by('a', '2')
  expect(refused.status).toBe(429)
  expect(await refused.json()).toMatchObject({
    'violated-policies': ['ban-1h'],
    code: 'penalty_active',
    detail: 'Temporarily refused after repeatedly exceeding the limit of 3 units per 1h.',
    retry_after_ms: 86_400_000,
    penalty_ms: 86_400_000,
  })
  // One unit is left of three, but not during the penalty; and the quota was not charged.
  expect(refused.headers.get('RateLimit')).toMatch(/^"api-1h";r=8;t=\d+, "ban-1h";r=0;t=86400$/)
  expect(refused.headers.get('Retry-After')).toBe('86400')
  expect(await statuses(2, () => by('a'))).toEqual([429, 429])
  expect(await statuses(1, () => by('b'))).toEqual([200])
})

const from = (address: string): Init => ({ headers: { 'CF-Connecting-IP': address } })
const SOURCES: readonly (readonly [by: string, first: Init, firstQuery: string, second: Init, secondQuery: string])[] =
  [
    ['ip', from('192.0.2.1'), '', from('192.0.2.2'), ''],
    ['header:X-Api-Key', { headers: { 'x-api-key': 'a' } }, '', { headers: { 'x-api-key': 'b' } }, ''],
    ['query:key', {}, '?key=a', {}, '?key=b'],
  ]
SHARED.push(
  ...SOURCES.map(([by], at) => ({ name: `by${at}`, limits: '1/1h', by, match: `/by/${at}` })),
  { name: 'all', limits: '1/1h', by: 'global', match: '/all/*' },
  { name: 'network', limits: '1/1h', by: 'ip', match: '/network' },
)
test('by distinguishes callers by address, header, query and route, or takes all for one', async () => {
  for (const [at, [by, first, firstQuery, second, secondQuery]] of SOURCES.entries()) {
    expect(await statuses(2, () => call(`/by/${at}${firstQuery}`, first)), by).toEqual([200, 429])
    expect(await statuses(2, () => call(`/by/${at}${secondQuery}`, second)), by).toEqual([200, 429])
  }
  expect(await statuses(1, () => call('/all/x', as('a')))).toEqual([200])
  expect(await statuses(1, () => call('/all/y', as('b')))).toEqual([429])

  // With a match, the route would be the pattern.
  const callRoute = await gatewayWith([{ name: 'p', limits: '1/1h', by: 'token+route' }])
  expect(await statuses(2, () => callRoute('/x', as('a')))).toEqual([200, 429])
  expect(await statuses(2, () => callRoute('/y', as('a')))).toEqual([200, 429])
})

test('by ip takes all addresses of an IPv6 /64 for one caller, or of what IPV6_PREFIX says', async () => {
  expect(await statuses(1, () => call('/network', from('2001:db8::1')))).toEqual([200])
  expect(await statuses(1, () => call('/network', from('2001:0DB8:0:0:ffff::2')))).toEqual([429])
  expect(await statuses(1, () => call('/network', from('2001:db8:0:1::1')))).toEqual([200])
  const narrow = await gatewayWith([{ name: 'p', limits: '1/1h', by: 'ip' }], { IPV6_PREFIX: 48 })
  expect(await statuses(1, () => narrow('/', from('2001:db8::1')))).toEqual([200])
  expect(await statuses(1, () => narrow('/', from('2001:db8:0:ffff::1')))).toEqual([429])
  expect(await statuses(1, () => narrow('/', from('2001:db8:1::1')))).toEqual([200])
})

SHARED.push(
  { name: 'form', limits: '1/1h', by: 'form:caller', anonymous: 'deny:403', match: '/form' },
  { name: 'skipped', limits: '1/1h', by: 'form:caller', anonymous: 'skip', match: '/skipped' },
)
test('by form reads a field of the body and leaves the body to the upstream', async () => {
  const post = (body: BodyInit) => call('/form', { method: 'POST', body })
  const first = await post(new URLSearchParams({ caller: 'a', note: 'ü&=' }))
  expect([first.status, await first.text()]).toEqual([200, '/form caller=a&note=%C3%BC%26%3D'])
  expect((await post(new URLSearchParams({ caller: 'a' }))).status).toBe(429)
  expect((await post(new URLSearchParams({ caller: 'b' }))).status).toBe(200)
  expect((await post(new URLSearchParams({ other: 'b' }))).status).toBe(403)
  expect((await post('caller=c')).status).toBe(403)
  // A body that is too long to read reaches the API whole, and does not leave the policy by its padding.
  const long = new URLSearchParams({ caller: 'c', pad: 'x'.repeat(100_000) })
  expect((await post(long)).status).toBe(403)
  const passed = await call('/skipped', { method: 'POST', body: long })
  expect(await passed.text()).toBe(`/skipped ${long}`)
  expect(passed.headers.get('RateLimit')).toMatch(/"skipped-1h";r=0/)
})

const CREDENTIALS = {
  APIKey: ['header:x-api-key', 'ip+header:x-api-key', 'query:key', 'cookie:sid', 'form:user', 'json:/user'],
  Bearer: ['token', 'token+header:x-tenant', 'header:authorization', 'ip+route+token'],
}
const DENYING = Object.entries(CREDENTIALS).flatMap(([kind, all]) => all.map((by) => ({ kind, by })))
SHARED.push(
  ...DENYING.map(({ by }, at) => ({ name: `deny${at}`, limits: '1/1h', by, anonymous: 'deny', match: `/deny/${at}` })),
  ...['deny:403', 'skip', 'ip'].map((anonymous, at) => {
    return {
      name: `anonymous${at}`,
      limits: '1/1h',
      by: 'header:x-api-key',
      anonymous,
      match: `/anonymous/${anonymous.replace(':', '-')}`,
    }
  }),
)
test('anonymous says what becomes of a caller without an identity, and a 401 by which credential it would have one', async () => {
  for (const [at, { kind, by }] of DENYING.entries()) {
    const { status, headers } = await call(`/deny/${at}`)
    expect([by, status, headers.get('WWW-Authenticate')]).toEqual([by, 401, kind])
  }
  expect(await statuses(1, () => call('/anonymous/deny-403'))).toEqual([403])
  expect(await statuses(3, () => call('/anonymous/skip'))).toEqual([200, 200, 200])
  expect(await statuses(2, () => call('/anonymous/ip'))).toEqual([200, 429])
})

SHARED.push({ name: 'cost', limits: '10/1h', cost: 'header:x-cost', max_cost: 5, match: '/cost' })
test('cost is read from a header within its bound, 413 above it, and anything else is a 400', async () => {
  const left = async (cost?: string) => {
    const response = await call('/cost', { headers: { Authorization: 'Bearer a', ...(cost && { 'x-cost': cost }) } })
    return [response.status, /r=(\d+)/.exec(response.headers.get('RateLimit') ?? '')?.[1]]
  }
  expect(await left('5')).toEqual([200, '5'])
  expect(await left()).toEqual([200, '4'])
  for (const bad of ['0', '-1', '1.5', '1e1', 'many']) expect(await left(bad)).toEqual([400, undefined])
  for (const high of ['6', '99999999999999999999']) expect(await left(high)).toEqual([413, undefined])
  expect(await left('5')).toEqual([429, '4'])
  expect(await left('4')).toEqual([200, '0'])
})

const SETTLED = { cost: 'header:x-cost', max_cost: 10, actual_cost: 'header:x-actual-cost', untold: 4 }
const SETTLING = { quota: '10/1h', 'fixed-window': '10/53w', 'token-bucket': '10/53w' }
for (const [algorithm, limits] of Object.entries(SETTLING)) {
  SHARED.push({ name: `settle-${algorithm}`, algorithm, limits, match: `/settle/${algorithm}`, ...SETTLED })
}
test.each(Object.keys(SETTLING))(
  'settle makes up the difference to what the upstream says of the cost (%s)',
  async (algorithm) => {
    const path = `/settle/${algorithm}`
    const ask = async (cost: number, actual: string) => {
      respond = (response) => response.setHeader('x-actual-cost', actual).end()
      const response = await call(path, { headers: { Authorization: 'Bearer a', 'x-cost': String(cost) } })
      return [response.status, Number(/r=(\d+)/.exec(response.headers.get('RateLimit') ?? '')?.[1])]
    }
    /** The correction follows the response. A refusal charges nothing, but tells what is left. */
    const becomes = async (left: number) => {
      for (let tries = 0; tries < 500; tries++) {
        const [status, seen] = await ask(10, 'none')
        expect(status).toBe(429)
        if (seen === left) return
      }
      throw new Error(`what is left did not become ${left}`)
    }
    expect(await ask(4, '1')).toEqual([200, 6])
    await becomes(9)
    expect(await ask(4, 'none')).toEqual([200, 5])
    expect(await ask(4, '-3')).toEqual([200, 1])
    expect(await ask(1, '0')).toEqual([200, 0])
    await becomes(1)
    expect(await ask(1, '1')).toEqual([200, 0])
    // Dearer than it was taken for, by whatever it is.
    for (const actual of ['25', '12884901888', '9'.repeat(30)]) {
      respond = (response) => response.setHeader('x-actual-cost', actual).end()
      expect((await call(path, as(actual))).status).toBe(200)
      for (let tries = 0; (await call(path, as(actual))).status !== 429; tries++) expect(tries).toBeLessThan(10)
    }
  },
)

test('a body that breaks off, or is none, is no fault of the gateway', async () => {
  const policies = [{ name: 'users', limits: '9/1h', by: 'json:/user' }]
  const gateway = await startGateway({ UPSTREAM_URL: upstream.url, POLICIES: policies, DECIDE_TOKEN: 'x'.repeat(32) })
  gateways.push(gateway)
  const start = (path: string) =>
    `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: Bearer ${'x'.repeat(32)}\r\n`
  for (const path of ['/', '/_sluice/decide']) {
    const socket = connect(Number(gateway.url.port), gateway.url.hostname)
    let answered = ''
    socket.on('data', (text) => {
      answered += text
    })
    socket.end(`${start(path)}Content-Length: 30\r\n\r\n{"user"`)
    await once(socket, 'close')
    expect(answered).not.toContain('internal_error')
    const chunked = `${start(path)}Transfer-Encoding: chunked\r\n\r\nzz\r\n`
    expect(await exchange(gateway.url, chunked)).toMatch(/^HTTP\/1\.1 4\d\d /)
  }
  expect(gateway.log.join()).not.toContain('unexpected_error')
})

/** Sends a request whose client goes away as soon as the upstream has it. @returns what the upstream answers it with */
async function abandon(url: URL): Promise<ServerResponse> {
  const arrived = Promise.withResolvers<ServerResponse>()
  respond = arrived.resolve
  const socket = connect(Number(url.port), url.hostname)
  socket.write('GET / HTTP/1.1\r\nHost: gateway.example\r\n\r\n')
  const response = await arrived.promise
  socket.resetAndDestroy()
  return response
}

test('actual_cost corrects the charge of a request whose client has gone before the response', async () => {
  const policies = [{ name: 'units', limits: '10/1h', algorithm: 'quota', by: 'global', ...SETTLED }]
  const gateway = await startGateway({ UPSTREAM_URL: upstream.url, POLICIES: policies })
  gateways.push(gateway)
  const response = await abandon(gateway.url)
  response.setHeader('x-actual-cost', '10').end('answered')
  respond = (response) => response.end()
  for (let tries = 0; (await fetch(gateway.url)).status !== 429; tries++) expect(tries).toBeLessThan(8)
})

SHARED.push(
  { name: 'checkout', match: 'POST /fleet', priority: 'critical' },
  { name: 'fleet', limits: '10/1h', by: 'global', reserve: { critical: 0.2 }, match: '/fleet' },
)
test('reserve keeps the last fifth of a budget for critical requests: others get 503, critical ones all of it', async () => {
  expect(await statuses(9, () => call('/fleet'))).toEqual([...Array(8).fill(200), 503])
  const reduced = await call('/fleet')
  expect(reduced.headers.get('Retry-After')).toMatch(/^\d+$/)
  expect(await reduced.json()).toMatchObject({
    type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
    status: 503,
  })
  const checkout = () => call('/fleet', { method: 'POST' })
  expect(await statuses(3, checkout)).toEqual([200, 200, 429])
  expect(await statuses(1, () => call('/fleet'))).toEqual([429])
})

test('fixed-window lets twice its limit pass around the end of a window, sliding-window does not', {
  tags: ['slow'],
}, async () => {
  // A machine too slow for one window may do with a longer one.
  const windowsMs = [1_000, 2_000, 4_000, 8_000, 16_000]
  const call = await gatewayWith(
    windowsMs.flatMap((windowMs) => [
      { name: `fixed-${windowMs}`, algorithm: 'fixed-window', limits: `5/${windowMs}ms`, match: `/fixed/${windowMs}` },
      { name: `sliding-${windowMs}`, limits: `5/${windowMs}ms`, match: `/sliding/${windowMs}` },
    ]),
  )
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

  /** Bursts just before the end of a window, and just after it; undefined if the machine was too slow for that. */
  async function twoBursts(windowMs: number, caller: string): Promise<number[][] | undefined> {
    const burst = async (algorithm: string) => {
      const seen = await statuses(5, () => call(`/${algorithm}/${windowMs}`, as(caller)))
      return seen.filter((status) => status === 200).length
    }
    // A refusal tells when the window ends, by Redis's clock.
    let endsInMs: number | undefined
    let requestedAt = 0
    while (endsInMs === undefined) {
      requestedAt = performance.now()
      const response = await call(`/fixed/${windowMs}`, as(caller))
      const body = await response.text()
      if (response.status === 429) endsInMs = (JSON.parse(body) as { retry_after_ms: number }).retry_after_ms
    }
    const nextEnds = endsInMs + windowMs
    const [earliest, latest] = [requestedAt + nextEnds, performance.now() + nextEnds]
    await wait(earliest - windowMs / 4 - performance.now())
    const startedAt = performance.now()
    const before = [await burst('fixed'), await burst('sliding')]
    // Begun in the window that was used up, or not done by the end of the next.
    if (startedAt <= latest - windowMs || performance.now() >= earliest) return undefined
    await wait(latest - performance.now())
    const after = [await burst('fixed'), await burst('sliding')]
    // Else what was admitted before may have left its window.
    return performance.now() < startedAt + windowMs ? [before, after] : undefined
  }

  let seen: number[][] | undefined
  for (let tries = 0; seen === undefined; tries++) {
    seen = await twoBursts(windowsMs[Math.min(tries, windowsMs.length - 1)] as number, `caller-${tries}`)
  }
  expect(seen).toEqual([
    [5, 5],
    [5, 0],
  ])
})

test('SHEDDING refuses sheddable requests while the upstream is overloaded, and no critical one', {
  tags: ['slow'],
}, async () => {
  const call = await gatewayWith(
    [
      { name: 'pay', match: '/pay', priority: 'critical' },
      { name: 'export', match: '/export', priority: 'sheddable' },
    ],
    { SHEDDING: 'on' },
  )
  respond = (response) => response.writeHead(503, { 'Retry-After': '1' }).end('upstream')
  for (let tries = 0; ; tries++) {
    expect(tries).toBeLessThan(5_000)
    // The answers to a few networks are no sign of anything.
    const response = await call('/export', { headers: { 'CF-Connecting-IP': `203.0.${tries % 31}.1` } })
    if ((await response.text()) === 'upstream') continue
    expect(response.status).toBe(503)
    expect(response.headers.get('Retry-After')).toBe('1')
    expect(response.headers.get('Content-Type')).toBe('application/problem+json')
    break
  }
  for (let i = 0; i < 50; i++) expect(await (await call('/pay')).text()).toBe('upstream')
})

test('SHEDDING takes what the API answers to one caller for no overload', { tags: ['slow'] }, async () => {
  const call = await gatewayWith([{ name: 'export', match: '/export', priority: 'sheddable' }], { SHEDDING: 'on' })
  respond = (response, _, url) => {
    if (url.endsWith('?often')) response.writeHead(429, { 'Retry-After': '1' })
    if (url.endsWith('?broken')) response.writeHead(503, { 'Retry-After': '1' })
    response.end('upstream')
  }
  const from = (address: string) => ({ headers: { 'CF-Connecting-IP': address } })
  // Several of the 250 ms after which the level is set anew.
  for (const endsAt = performance.now() + 1_500; performance.now() < endsAt; ) {
    for (const query of ['?often', '?broken']) await (await call(`/export${query}`, from('203.0.113.7'))).text()
    const honest = await call('/export', from('198.51.100.1'))
    expect([honest.status, await honest.text()]).toEqual([200, 'upstream'])
  }
})

test('concurrency: a slot is free again when the body has ended', async () => {
  const call = await gatewayWith([{ name: 'open', limits: '2', algorithm: 'concurrency' }])
  const open: ServerResponse[] = []
  respond = (response) => {
    response.write('begun ')
    open.push(response)
  }
  const responses = [await call('/'), await call('/')]
  expect(responses[0]?.headers.get('RateLimit-Policy')).toBe('"open";q=2;qu="concurrent-requests"')
  const refused = await call('/')
  // Its deadline is a minute away, but a slot may be given back at any moment.
  expect([refused.status, refused.headers.get('Retry-After')]).toEqual([429, '1'])
  expect(await refused.json()).toMatchObject({ retry_after_ms: 1_000 })
  open[0]?.end('ended')
  expect(await responses[0]?.text()).toBe('begun ended')
  await free(call)
  expect((await call('/')).status).toBe(429)
  for (const response of open) response.destroy()
})

test('concurrency: a slot is free again when the client went away', async () => {
  const call = await gatewayWith([{ name: 'open', limits: '1', algorithm: 'concurrency' }])
  const closed = Promise.withResolvers<void>()
  respond = (response) => {
    // A body without end: locally, workerd learns from a failed write that nobody reads any more.
    const writing = setInterval(() => response.write('more'), 10)
    response.once('close', () => {
      clearInterval(writing)
      closed.resolve()
    })
    response.write('begun')
  }
  const controller = new AbortController()
  // Miniflare would compress the body, and hold it back until there is more of it.
  const headers = { 'Accept-Encoding': 'identity' }
  expect((await call('/', { headers, signal: controller.signal })).status).toBe(200)
  expect((await call('/')).status).toBe(429)
  controller.abort()
  await closed.promise
  respond = (response) => response.end()
  await free(call)
})

test('concurrency: a slot is free again when the client went away before the response began', async () => {
  const policies = [{ name: 'open', limits: '1', algorithm: 'concurrency' }]
  const gateway = await startGateway({ UPSTREAM_URL: upstream.url, UPSTREAM_TIMEOUT_MS: 3_600_000, POLICIES: policies })
  gateways.push(gateway)
  const response = await abandon(gateway.url)
  // The upstream learns it, too.
  await once(response, 'close')
  respond = (response) => response.end()
  await free(() => fetch(gateway.url))
})

test.each(['gzip', 'br'])('concurrency: a range of a body in %s passes as it is', async (encoding) => {
  await gatewayWith([{ name: 'open', limits: '1', algorithm: 'concurrency' }])
  const range = randomBytes(100)
  const headers = { 'Content-Encoding': encoding, 'Content-Range': 'bytes 50-149/5000', 'Content-Length': '100' }
  respond = (response) => response.writeHead(206, headers).end(range)
  const [response] = (await once(get(gateways[0]?.url ?? ''), 'response')) as [IncomingMessage]
  expect(Buffer.concat(await response.toArray())).toEqual(range)
  expect(response.headers).toMatchObject({ 'content-encoding': encoding, 'content-length': '100' })
})

test('concurrency: a slot is held beyond its deadline, as long as the response lasts', async () => {
  const call = await gatewayWith([{ name: 'open', limits: '1', algorithm: 'concurrency', slot_ttl: '400ms' }])
  let end = () => {}
  respond = (response) => {
    response.write('begun')
    end = () => response.end()
  }
  const first = await call('/')
  // Longer than a slot lasts by itself.
  for (const untilMs = Date.now() + 900; Date.now() < untilMs; ) {
    expect((await call('/')).status).toBe(429)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  end()
  await first.text()
  respond = (response) => response.end()
  await expect.poll(async () => (await call('/')).status).toBe(200)
})

test('concurrency: a WebSocket holds its slot until it is closed, beyond the deadline', {
  tags: ['slow'],
}, async () => {
  const echo = await startEchoUpstream()
  const policies = [{ name: 'open', limits: '1', algorithm: 'concurrency', slot_ttl: '3s' }]
  const call = await gatewayWith(policies, { UPSTREAM_URL: echo.url })
  const gateway = gateways.at(-1) as DirectGateway
  const socket = new WebSocket(gateway.url.href.replace('http', 'ws'))
  await once(socket, 'open')
  const exchange = async (text: string) => {
    socket.send(text)
    const [message] = await once(socket, 'message')
    return String(message)
  }
  expect(await exchange('hello')).toBe('hello')
  // Each refusal tells the earliest deadline: waiting for it twice is beyond the first.
  for (let i = 0; i < 2; i++) {
    const refused = await call('/')
    expect(refused.status).toBe(429)
    const { retry_after_ms } = (await refused.json()) as { retry_after_ms: number }
    await new Promise((resolve) => setTimeout(resolve, retry_after_ms))
  }
  expect(await exchange('still here')).toBe('still here')
  socket.close(4001, 'done')
  const [code] = await once(socket, 'close')
  expect(code).toBe(4001)
  await free(call)
  await echo.stop()
})

/** Asks until a slot is given: each refusal goes all the way to Redis, so this waits on nothing but its state. */
async function free(call: (path: string) => Promise<Response>): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if ((await call('/')).status === 200) return
  }
  throw new Error('the slot was not given back')
}
