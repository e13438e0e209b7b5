/** Nothing that a client or an API sends can become a field or a line of its own, or a page. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { loadConfig } from '../../../src/http/config/load-config.ts'
import { exchange, readStatuses } from '../../support/raw-http.ts'
import { share } from '../../support/share.ts'
import { startThreatenedGateway } from '../../support/threatened-gateway.ts'

let bytes = ''
/** An API that answers with bytes as they are. */
const api = share(
  async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => socket.end(Buffer.from(bytes, 'latin1')))
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return server
  },
  (server) => server.close(),
)
const broken = share(() => {
  return startThreatenedGateway({ UPSTREAM_URL: `http://127.0.0.1:${(api.address() as AddressInfo).port}` })
})
const gateway = share(() =>
  startThreatenedGateway({
    POLICIES: [
      { name: 'limited', limits: '1/1h', by: 'header:x-key', match: '/limited/*', anonymous: 'ip' },
      { name: 'denied', limits: '1/1h', by: 'query:key', match: '/denied/*', anonymous: 'deny' },
      { name: 'dear', limits: '5/1h', cost: 'header:x-cost', max_cost: 5, match: '/dear/*' },
      {
        name: 'words',
        limits: '1/1h',
        by: 'global',
        match: '/words/*',
        refusal: { html: '<p>{retry_after} {q}</p>', detail: '{path}', type: 'https://docs.example.com/{q}' },
      },
      {
        name: 'gone',
        limits: '1/1h',
        by: 'global',
        match: '/gone/*',
        refusal: { redirect: 'https://example.com/?{q}' },
      },
    ],
    CORS_ORIGINS: 'https://app.example.com, *',
    SELF_SERVICE: 'on',
    REWRITE_LOCATION: 'on',
  }),
)

/** What the client sends into every place that takes it. */
const HOSTILE = [
  ...['<script>x</script>', '%0d%0aX-Evil:1', '"};x={"', '\\r\\nX-Evil: 1', '\xe5\x98\x8a\xe5\x98\x8dX-Evil:1'],
]

test.each(HOSTILE)('no refusal repeats what the client sent: %j', async (hostile) => {
  const call = (path: string, accept = hostile) => {
    const sent = encodeURI(hostile).replaceAll('%25', '%')
    return exchange(
      gateway.url,
      `GET ${path}/${sent}?q=${sent} HTTP/1.1\r\nHost: gateway.example\r\nVia: 1.1 ${hostile}\r\nX-Key: ${hostile}\r\n` +
        `X-Cost: ${hostile}\r\nAuthorization: ${hostile}\r\nX-Forwarded-Host: ${hostile}\r\nOrigin: ${hostile}\r\nAccept: ${accept}\r\n` +
        'Connection: close\r\n\r\n',
    )
  }
  await call('/limited')
  const answers = [await call('/limited'), await call('/denied'), await call('/dear'), await call('/_sluice')]
  expect(answers.map((answer) => readStatuses(answer))).toEqual([[429], [401], [400], [404]])
  for (const answer of answers) {
    expect(answer).not.toMatch(/evil|script>|x=\{/i)
    expect(answer).toContain('\r\nContent-Type: application/problem+json\r\n')
  }
  for (const path of ['/words', '/gone']) await call(path)
  const own = [await call('/words'), await call('/words', 'text/html'), await call('/gone', 'text/html')]
  const sent = encodeURIComponent(hostile)
  const limits = [`path=/${sent}`, `path=${sent}`, `method=${sent}`, `${sent}=1`].map(
    (query) => `/_sluice/limits?${query}&x=`,
  )
  for (const path of limits) own.push(await call(path))
  expect(own.slice(0, 3).map((answer) => readStatuses(answer))).toEqual([[429], [429], [303]])
  for (const answer of own) expect(answer).not.toMatch(/evil|script>|x=\{/i)
})

test('Via and X-Forwarded-Host are one field each to the API, whatever the client put there', async () => {
  gateway.upstream.take()
  const fields = 'Via: 1.1 a\r\nVia: 1.1 "b\\\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Host: worse.example\r\n'
  await exchange(gateway.url, `GET / HTTP/1.1\r\nHost: g.example\r\n${fields}Connection: close\r\n\r\n`)
  const [recorded] = gateway.upstream.take()
  expect(recorded?.headers.via).toMatch(/^1\.1 a, 1\.1 "b\\, 1\.1 sluice-[\w-]{8}$/)
  expect(recorded?.headers['x-forwarded-host']).toBe('g.example')
})

test.each(['a"b', 'a\r\nX-Evil: 1', 'a;q=1', 'a b', 'a,b', '<b>', 'é', 'x'.repeat(65)])(
  'no policy may have a name that a field could not hold: %j',
  (name) => {
    const load = () => loadConfig({ UPSTREAM_URL: 'https://api.example.com', POLICIES: [{ name, limits: '1/1s' }] })
    expect(load).toThrow(/^POLICIES\[0\]\.name: expected [^\n\r]*$/)
  },
)

test.each([
  ['a CR in a value', 'X-A: 1\rSet-Cookie: evil=1'],
  ['a NUL in a value', 'X-A: 1\0Set-Cookie: evil=1'],
  ['a folded field', 'X-A: 1\r\n Set-Cookie: evil=1'],
  ['two lengths', 'Content-Length: 1\r\nContent-Length: 2'],
  ['a space in a name', 'X A: 1'],
])('an answer of the API with %s is a 502, not two answers', async (_, field) => {
  const answer = await answerTo(`HTTP/1.1 200 OK\r\n${field}\r\n\r\nHTTP/1.1 200 OK\r\n\r\n`)
  expect(readStatuses(answer)).toEqual([502])
  expect(answer).not.toMatch(/evil/i)
})

test.each([199, 600, 999, 1000, 99])(
  'an answer of the API with a status that is none, %d, is a 502',
  async (status) => {
    const answer = await answerTo(`HTTP/1.1 ${status} Evil\r\nContent-Length: 4\r\n\r\nevil`)
    expect(readStatuses(answer)).toEqual([502])
    expect(answer).toContain('\r\nContent-Type: application/problem+json\r\n')
    expect(answer).not.toMatch(/evil/i)
  },
)

/** What a client gets where the API answers so. */
async function answerTo(answer: string): Promise<string> {
  bytes = answer
  return exchange(broken.url, 'GET / HTTP/1.1\r\nHost: g.example\r\nConnection: close\r\n\r\n')
}
