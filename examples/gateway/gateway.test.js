/** The gateway as it is configured here, before an API that answers everything, in the runtime that Cloudflare runs. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { createTestHarness } from 'wrangler'

const api = createServer((_request, response) => response.end('hello'))
let gateway

before(async () => {
  await once(api.listen(0, '127.0.0.1'), 'listening')
  const { UPSTASH_REDIS_REST_URL, UPSTASH_REDIS_REST_TOKEN } = process.env
  gateway = createTestHarness({
    workers: [
      {
        configPath: 'wrangler.toml',
        vars: { UPSTREAM_URL: `http://127.0.0.1:${api.address().port}` },
        // With a database, a caller's requests are counted there; without one, in memory.
        secrets: UPSTASH_REDIS_REST_URL ? { UPSTASH_REDIS_REST_URL, UPSTASH_REDIS_REST_TOKEN } : {},
      },
    ],
  })
  await gateway.listen()
})

after(async () => {
  await gateway.close()
  api.close()
})

function logIn() {
  return gateway.fetch('/login', { method: 'POST', headers: { 'CF-Connecting-IP': '192.0.2.7' } })
}

test('requests reach the API, and the response tells what is left', async () => {
  const response = await gateway.fetch('/hello', { headers: { Authorization: 'Bearer one' } })
  assert.equal(await response.text(), 'hello')
  assert.match(response.headers.get('RateLimit'), /"default-1s";r=9/)
})

test('the sixth login within a minute is refused', async () => {
  const statuses = []
  for (let attempt = 0; attempt < 5; attempt++) statuses.push((await logIn()).status)
  assert.deepEqual(statuses, [200, 200, 200, 200, 200])
  const refused = await logIn()
  assert.equal(refused.status, 429)
  assert.ok((await refused.json()).retry_after_ms <= 60_000)
})
