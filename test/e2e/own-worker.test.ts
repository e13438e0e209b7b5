/** `sluice/gateway` in Workers of one's own, in workerd: before an app, and behind one. */
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { type Bundle, buildBundle, removeBundle } from '../support/build-bundle.ts'
import { type DirectGateway, startDirectGateway } from '../support/direct-gateway.ts'
import { redisBindings } from '../support/gateway.ts'
import { readPage } from '../support/markdown.ts'
import { share } from '../support/share.ts'
import { startUpstream } from '../support/upstream.ts'

const CALLER = { Authorization: 'Bearer someone' }
const POLICIES = [
  { name: 'slots', algorithm: 'concurrency', limits: '1', slot_ttl: '1h', match: '/stream' },
  { name: 'few', limits: '2/1h', match: '/few' },
  { name: 'many', limits: '1000/1h' },
]

const bundles: Bundle[] = []
async function start(source: string, bindings: Readonly<Record<string, unknown>>): Promise<DirectGateway> {
  const bundle = await buildBundle({ source })
  bundles.push(bundle)
  return startDirectGateway({ bundle, bindings: { ...redisBindings(), RATE_LIMITS: 'off', POLICIES, ...bindings } })
}
afterAll(async () => void (await Promise.all(bundles.map(removeBundle))))

describe('createGateway() before an app', () => {
  const worker = share(() => start('test/support/workers/before-app.ts', { GREETING: 'hello' }))
  const get = (path: string, init?: RequestInit) => fetch(new URL(path, worker.url), { headers: CALLER, ...init })

  test('has the app answer what is admitted, with its own variables, and refuses the rest', async () => {
    const answers = []
    for (let sent = 0; sent < 3; sent++) {
      const response = await get('/few?x=%2F')
      answers.push([response.status, await response.text()])
    }
    expect(answers).toMatchObject([
      [200, 'GET /few?x=%2F hello'],
      [200, 'GET /few?x=%2F hello'],
      [429, expect.stringContaining('limit_exceeded')],
    ])
  })

  test('takes a synchronous answer, bodies, HEAD and work after the response', async () => {
    const sync = await get('/sync')
    expect([sync.status, await sync.text(), sync.headers.get('RateLimit')]).toMatchObject([200, 'sync', /many/])
    const posted = await get('/echo', { method: 'POST', body: 'some text' })
    expect(await posted.text()).toBe('some text')
    const head = await get('/head', { method: 'HEAD' })
    expect([head.status, await head.text(), head.headers.get('x-method')]).toEqual([200, '', 'HEAD'])
    expect(await (await get('/waited')).text()).toBe('1 waited')
  })

  test('answers what is its own, however it is spelt', async () => {
    const health = await get('/x/%2e%2e/_sluice/health')
    expect(await health.json()).toMatchObject({ status: 'ok', store: { kind: 'redis' } })
  })

  test('gives a slot back when a streamed answer ends', async () => {
    const first = await get('/stream')
    expect([first.status, (await get('/stream')).status]).toEqual([200, 429])
    expect((await first.arrayBuffer()).byteLength).toBe(24 * 2 ** 20)
    await expect.poll(async () => (await get('/stream')).status).toBe(200)
  })

  test('passes WebSockets on', async () => {
    const client = new WebSocket(`ws://${worker.url.host}/socket`, { headers: CALLER })
    onTestFinished(() => client.terminate())
    await once(client, 'open')
    client.send('ping')
    const [message] = await once(client, 'message')
    expect(`${message}`).toBe('echo ping')
  })
})

test('createGateway() behind an app forwards what the app hands on', async () => {
  const upstream = await startUpstream((request, response) => response.end(`api ${request.url}`))
  onTestFinished(() => upstream.stop())
  const worker = await start('test/support/workers/behind-app.ts', { UPSTREAM_URL: upstream.url })
  onTestFinished(() => worker.stop())
  const read = async (path: string) => {
    const response = await fetch(new URL(path, worker.url), { headers: CALLER })
    return [response.status, await response.text()]
  }
  expect(await read('/own')).toEqual([200, 'the app itself'])
  expect(await read('/few')).toEqual([200, 'api /few'])
  expect(await read('/few')).toEqual([200, 'api /few'])
  expect((await read('/few'))[0]).toBe(429)
  // Not even a path that the app normalizes reaches the upstream.
  expect((await read('/x/../_sluice/health'))[1]).toContain('"status":"ok"')
})

test('the examples of docs/gateway.md run as they stand', async () => {
  const { code } = await readPage('docs/gateway.md')
  const examples = code.filter(({ text }) => text.includes("from 'sluice/gateway'"))
  expect(examples.length).toBe(2)
  const upstream = await startUpstream((_, response) => response.end('from the API'))
  await mkdir('dist', { recursive: true })
  const folder = await mkdtemp('dist/examples-')
  onTestFinished(async () => {
    await upstream.stop()
    await rm(folder, { recursive: true })
  })
  const answers = []
  for (const [index, { text }] of examples.entries()) {
    const source = join(folder, `${index}.ts`)
    await writeFile(source, text.replace("'sluice/gateway'", "'../../src/gateway.ts'"))
    const worker = await start(source, { UPSTREAM_URL: upstream.url })
    onTestFinished(() => worker.stop())
    for (const path of ['/own', '/few', '/few', '/few']) {
      const response = await fetch(new URL(path, worker.url), { headers: CALLER })
      answers.push([response.status, response.ok && (await response.text())])
    }
  }
  const [own, hello, refused] = [
    [200, 'no limit here'],
    [200, 'hello from /few'],
    [429, false],
  ]
  expect(answers.slice(0, 4)).toEqual([[200, 'hello from /own'], hello, hello, refused])
  expect(answers.slice(4)).toEqual([own, [200, 'from the API'], [200, 'from the API'], refused])
})

test('a Worker without variables of the gateway may pass them to sluice/worker', async () => {
  const upstream = await startUpstream((_, response) => response.end('from the API'))
  onTestFinished(() => upstream.stop())
  const bundle = await buildBundle({ source: 'test/support/workers/other-variables.ts' })
  bundles.push(bundle)
  const bindings = { PASSED: { ...redisBindings(), RATE_LIMITS: '1/1h', UPSTREAM_URL: upstream.url } }
  const worker = await startDirectGateway({ bundle, bindings })
  onTestFinished(() => worker.stop())
  const statuses = []
  for (let sent = 0; sent < 2; sent++) statuses.push((await fetch(worker.url, { headers: CALLER })).status)
  expect(statuses).toEqual([200, 429])
})

test('a Worker that calls sluice/worker with variables other than its own is refused by name', async () => {
  const worker = await start('test/support/workers/other-variables.ts', { UPSTREAM_URL: 'https://api.example.com' })
  onTestFinished(() => worker.stop())
  const response = await fetch(worker.url, { headers: CALLER })
  expect([response.status, await response.json()]).toMatchObject([
    500,
    { code: 'misconfigured', detail: expect.stringContaining('createGateway() of sluice/gateway') },
  ])
})
