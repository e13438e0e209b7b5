/** The app as it is, in processes of its own. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { after, test } from 'node:test'

const { REDIS_URL, ...others } = process.env
const started = []
after(() => {
  for (const app of started) app.kill()
})

/** Starts the app on a free port. */
async function start(env) {
  const app = spawn(process.execPath, ['app.js'], { env: { ...others, ...env, PORT: '0' } })
  started.push(app)
  let log = ''
  app.stderr.on('data', (chunk) => {
    log += chunk
  })
  const [url] = await Promise.race([once(app.stdout, 'data'), once(app, 'exit')])
  if (!String(url).startsWith('http')) throw new Error(`the app has not started: ${log}`)
  const stop = async () => {
    app.kill()
    await once(app, 'close')
  }
  return { url: String(url).trim(), log: () => log, stop }
}

/** Sends so many requests of one caller at once, to each app in turns. */
async function burst(urls, requests) {
  const headers = { Authorization: `Bearer ${randomUUID()}` }
  const startedAt = performance.now()
  const responses = await Promise.all(
    Array.from({ length: requests }, (_, i) => fetch(urls[i % urls.length], { headers })),
  )
  const tookMs = performance.now() - startedAt
  return { admitted: responses.filter(({ status }) => status === 200).length, tookMs, responses }
}

const skip = REDIS_URL ? false : 'it needs Redis: set REDIS_URL, e.g. to redis://127.0.0.1:6379'

test('10 a second hold across two processes', { skip }, async () => {
  for (let attempt = 0; attempt < 20; attempt++) {
    const apps = await Promise.all([start({ REDIS_URL }), start({ REDIS_URL })])
    const urls = apps.map(({ url }) => url)
    await burst(urls, 4)
    const { admitted, tookMs, responses } = await burst(urls, 40)
    const refused = await responses.find(({ status }) => status === 429)?.json()
    await Promise.all(apps.map((app) => app.stop()))
    // On a busy machine, 40 requests may take more than a second, or Redis longer than an app waits for it. More are
    // then admitted, and rightly so.
    if (tookMs >= 1_000 || apps.some(({ log }) => log().includes('store_error'))) continue
    assert.equal(admitted, 10)
    assert.ok(refused.retry_after_ms <= 1_001)
    return
  }
  assert.fail('this machine was too busy each time')
})

test('without Redis, each middleware has its limits, and the log says once that they hold per process only', async () => {
  const { url, log } = await start({})
  const statuses = []
  for (let login = 0; login < 6; login++) statuses.push((await fetch(`${url}/login`, { method: 'POST' })).status)
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429])
  const response = await fetch(url, { headers: { Authorization: 'Bearer one' } })
  assert.deepEqual(await response.json(), { left: [9, 99] })
  assert.equal(response.headers.get('RateLimit'), '"default-1s";r=9;t=1, "default-1m";r=99;t=60')
  assert.equal(log().match(/limits hold per process only/g)?.length, 1)
})
