import { beforeAll, describe, expect, test } from 'vitest'
import { DECIDE_TOKEN, type Decisions, openDecisions, type Question } from '../support/decisions.ts'

/** A bucket would get back what is charged too much. */
const COSTS = { by: 'ip', algorithm: 'token-bucket', limits: '100/24h' }
const POLICIES = [
  { name: 'login', by: 'ip', match: 'POST /login', limits: '1/1h' },
  { name: 'key', by: 'header:x-key', anonymous: 'deny', match: '/keys/*', limits: '1/1h' },
  { name: 'host', by: 'header:host', match: '/host', limits: '1/1h' },
  { name: 'body', by: 'json:/user', anonymous: 'skip', match: '/body', limits: '1/1h' },
  { name: 'query', by: 'query:q', match: '/query', limits: '1/1h' },
  { name: 'slots', by: 'ip', match: '/slots', limits: '1', algorithm: 'concurrency' },
  { name: 'tokens', ...COSTS, match: '/tokens', actual_cost: 'json:/usage/total_tokens', untold: 50 },
  { name: 'estimated', ...COSTS, match: '/estimated', actual_cost: 'bytes', cost: 40 },
  { name: 'later', ...COSTS, match: '/later', counts: 'responses', actual_cost: 'header:x-cost', untold: 50 },
  { name: 'failing', by: 'ip', match: '/failing', limits: '1/1h', counts: 'failures', failures: '2xx' },
]

let decisions: Decisions
let address = 0
/** An address that no other test has. */
const newAddress = () => `192.0.2.${++address}`

beforeAll(async () => {
  decisions = await openDecisions({ STORE: 'memory', POLICIES, EXEMPT: 'GET /free' })
})

async function ask(...questions: readonly Question[]): Promise<readonly number[]> {
  const statuses: number[] = []
  for (const question of questions) statuses.push((await decisions.authorize(question)).status)
  return statuses
}

describe('/_sluice/authorize', () => {
  test('answers 200 with the fields of the limits, or the refusal', async () => {
    const question = { method: 'POST', uri: '/login', address: newAddress() }
    const admitted = await decisions.authorize(question)
    expect([admitted.status, await admitted.text()]).toEqual([200, ''])
    expect(admitted.headers.get('RateLimit-Policy')).toBe('"login-1h";q=1;w=3600')
    expect(admitted.headers.get('RateLimit')).toMatch(/^"login-1h";r=0;t=/)
    expect(admitted.headers.get('Cache-Control')).toBe('no-store')
    const refused = await decisions.authorize(question)
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(3_000)
    expect(await refused.json()).toMatchObject({ code: 'limit_exceeded' })
  })

  test('makes other refusals than 401 a 403 for nginx, with their status in a header', async () => {
    const forNginx = (question: Question) => decisions.authorize(question, '?refusals=403')
    const question = { method: 'POST', uri: '/login', address: newAddress() }
    expect((await forNginx(question)).headers.has('Sluice-Status')).toBe(false)
    const limited = await forNginx(question)
    expect([limited.status, limited.headers.get('Sluice-Status')]).toEqual([403, '429'])
    expect(limited.headers.get('Retry-After')).not.toBe(null)
    const unknown = await forNginx({ uri: '/keys/a' })
    expect([unknown.status, unknown.headers.get('WWW-Authenticate')]).toEqual([401, 'APIKey'])
    const unclear = await forNginx({ uri: 'login' })
    expect([unclear.status, unclear.headers.get('Sluice-Status')]).toEqual([403, '400'])
  })

  test.each(['/tokens', '/estimated', '/later'])(
    'charges for %s what a response costs that does not tell, since it sees none',
    async (uri) => {
      const question = { uri, address: newAddress() }
      expect(await ask(question)).toEqual([200])
      const left = async () =>
        /;r=(\d+)/.exec((await decisions.authorize(question)).headers.get('RateLimit') ?? '')?.[1]
      expect(await left()).toBe(uri === '/estimated' ? '20' : uri === '/later' ? '50' : '49')
      await expect.poll(() => ask(question)).toEqual([429])
    },
  )

  test('reads the caller from the fields of the client, but its address and host from the proxy', async () => {
    const at = (uri: string, headers: Record<string, string>) => ({ uri, headers })
    expect(
      await ask(at('/keys/a', { 'X-Key': 'a' }), at('/keys/b', { 'X-Key': 'a' }), at('/keys/a', { 'X-Key': 'b' })),
    ).toEqual([200, 429, 200])
    expect(await ask({ uri: '/host' }, { uri: '/host' }, { uri: '/host', host: 'other.test' })).toEqual([200, 429, 200])
    expect(await ask({ uri: '/query?q=1' }, { uri: '/query?q=1' }, { uri: '/query?q=2' })).toEqual([200, 429, 200])
    const own = newAddress()
    const claim = { method: 'POST', uri: '/login', address: `198.51.100.1, ${own}` }
    const headers = { 'CF-Connecting-IP': '198.51.100.2', 'X-Real-IP': '198.51.100.3' }
    expect(await ask(claim, { ...claim, address: `198.51.100.9, ${own}`, headers })).toEqual([200, 429])
  })

  test('reads no body: whoever is counted by one is counted by address', async () => {
    const own = newAddress()
    const post = { method: 'POST', uri: '/body', address: own }
    expect(await ask(post, post, { ...post, address: newAddress() })).toEqual([200, 429, 200])
  })

  test('finds the policies of the path and method, exemptions and ambiguous paths as the gateway does', async () => {
    const post = { method: 'POST', address: newAddress() }
    expect(await ask({ ...post, uri: '/login' }, { ...post, uri: '/LOGIN/' }, { ...post, uri: '/%6Cogin?a' })).toEqual([
      200, 429, 429,
    ])
    expect(await ask({ ...post, method: 'GET', uri: '/login' }, { uri: '/free' })).toEqual([200, 200])
    expect(await ask({ ...post, method: 'GET', uri: '/x', headers: { 'X-HTTP-Method': 'POST' } })).toEqual([200])
    expect(await ask({ uri: '/login', address: post.address, headers: { 'X-HTTP-Method': 'POST' } })).toEqual([429])
    for (const uri of ['/x/../login', '/x/%2e%2e/login', '/login;x', '//login', '/login\\']) {
      expect(await ask({ ...post, uri }), uri).toEqual([400])
    }
  })

  test.each([
    ['no path', { uri: '' }],
    ['a path that is given twice', { uri: '/a, /b' }],
    ['a whole URL', { uri: 'http://api.test/login' }],
    ['a fragment', { uri: '/a#/login' }],
    ['no method', { method: '' }],
    ['a method that is given twice', { method: 'GET, POST' }],
    ['a method in small letters', { method: 'post' }],
    ['no host', { host: '' }],
    ['a host with a path', { host: 'api.test/login' }],
    ['a host with a name', { host: 'me@api.test' }],
    ['a port that is none', { host: 'api.test:99999' }],
  ])('refuses %s', async (_, question) => {
    expect(await ask(question)).toEqual([400])
  })

  test('refuses with 414 what no gateway forwards', async () => {
    expect(await ask({ uri: `/${'a'.repeat(5_000)}` })).toEqual([414])
  })

  test('holds slots until their time is over, and charges no failures', async () => {
    const own = { address: newAddress() }
    expect(await ask({ ...own, uri: '/slots' }, { ...own, uri: '/slots' })).toEqual([200, 429])
    expect(await ask({ ...own, uri: '/failing' }, { ...own, uri: '/failing' })).toEqual([200, 200])
    expect((await decisions.decide({ policy: 'failing', identity: ['ip', own.address] })).body.granted).toBe(true)
    expect(await ask({ ...own, uri: '/failing' })).toEqual([429])
  })

  test('believes nobody without the token, which it takes from the URL, too', async () => {
    const question = { method: 'POST', uri: '/login', address: newAddress() }
    const withToken = (token: string, query = '') =>
      decisions.authorize({ ...question, headers: { 'Sluice-Token': token } }, query)
    const wrong = [
      await withToken(''),
      await withToken(`${DECIDE_TOKEN}x`),
      await withToken('', '?token='),
      await withToken('', `?token=${DECIDE_TOKEN}&token=${DECIDE_TOKEN}`),
      await withToken(`${DECIDE_TOKEN}, ${DECIDE_TOKEN}`),
      await decisions.fetch('/_sluice/authorize', { headers: { Authorization: `Bearer ${DECIDE_TOKEN}` } }),
    ]
    for (const response of wrong) {
      expect([response.status, response.headers.has('RateLimit')]).toEqual([403, false])
      expect(await response.json()).toMatchObject({ code: 'unauthorized' })
    }
    expect((await withToken('of the client', `?token=${DECIDE_TOKEN}`)).status).toBe(200)
    expect((await withToken(DECIDE_TOKEN)).status).toBe(429)
    expect((await withToken(DECIDE_TOKEN, '?token=of-the-client')).status).toBe(429)
  })

  test('answers with CORS_ORIGINS too, and allows no page anything', async () => {
    const CORS_ORIGINS = 'https://app.example.com'
    const own = await openDecisions({ STORE: 'memory', RATE_LIMITS: '1/1h', CORS_ORIGINS })
    const question = { headers: { Origin: CORS_ORIGINS } }
    const answers = [await own.authorize(question), await own.authorize(question)]
    expect(answers.map(({ status, headers }) => [status, headers.get('Access-Control-Allow-Origin')])).toEqual([
      [200, null],
      [429, null],
    ])
    expect((await own.decide({ policy: 'default', identity: 'a' })).body.granted).toBe(true)
  })
})

describe('/_sluice/authorize/…', () => {
  const askAt = async (path: string, { method = 'GET', headers = {} }: RequestInit = {}) =>
    decisions.fetch(path, { method, headers: { 'Sluice-Token': DECIDE_TOKEN, ...(headers as object) } })

  test('is about its own method and the path after it, whatever the client claims', async () => {
    const headers = { 'X-Forwarded-For': newAddress(), 'X-Forwarded-Uri': '/free', 'X-Forwarded-Method': 'GET' }
    const login = { method: 'POST', headers }
    expect((await askAt('/_sluice/authorize/', { headers })).status).toBe(200)
    const admitted = await askAt('/_sluice/authorize/login?refusals=403', login)
    expect([admitted.status, admitted.headers.get('RateLimit-Policy')]).toEqual([200, '"login-1h";q=1;w=3600'])
    expect((await askAt('/_sluice/authorize/login?refusals=403', login)).status).toBe(429)
    expect((await askAt('/_sluice/authorize//login', login)).status).toBe(400)
    expect(
      (await askAt(`/_sluice/authorize/login?token=${DECIDE_TOKEN}`, { headers: { 'Sluice-Token': 'x' } })).status,
    ).toBe(403)
  })

  test('is where a proxy may ask: elsewhere, nothing could be taken for a permission', async () => {
    const paths = [
      '/',
      '/free',
      '/_sluice/health',
      '/_sluice',
      '/_sluice/authorized',
      '/_sluice//authorize',
      '/_sluice/decide',
    ]
    for (const path of [...paths, '/_sluice/authorize/../health', '/_sluice/authorize/../../free']) {
      expect((await askAt(path)).status, path).toBe(404)
    }
    expect(await (await decisions.fetch('/free')).text()).toBe('from the API')
  })
})
