import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer as createHttpServer, request } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { brotliCompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { ofNode } from '../../support/of-node.ts'

const DEV = join(import.meta.dirname, '../../../tools/dev.ts')
const run = promisify(execFile)
/** A slow machine is no reason to count on one's own. */
const PATIENT = { STORE_TIMEOUT_MS: '30000', ON_STORE_ERROR: 'closed' }

/** Runs dev.ts and collects what it prints. */
function startDev(variables: Record<string, string>, args: readonly string[] = []) {
  // The shell of whoever runs the tests must not configure them.
  const env = { ...ofNode(), PORT: '0', ...variables }
  const assignments = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  const child = spawn('env', ['-i', ...assignments, process.execPath, DEV, ...args])
  const printed = { text: '' }
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => {
      printed.text += chunk
    })
  }
  // Not its 'close': the bundler's process may outlive it on a busy machine, and holds its output open.
  const exited = once(child, 'exit').then(([code]) => code as number)
  const ready = new Promise<void>((resolve, reject) => {
    child.stdout.on('data', () => printed.text.includes('Ctrl-C') && resolve())
    exited.then(() => reject(new Error(printed.text)))
  })
  ready.catch(() => {})
  onTestFinished(async () => {
    child.kill('SIGTERM')
    await exited
    for (const stream of [child.stdout, child.stderr]) stream.destroy()
  })
  return { child, printed, exited, ready }
}

/** What it has printed may arrive after its end. */
const reported = (printed: { readonly text: string }) => expect.poll(() => printed.text)

/** The row that starts with the label, without the label. */
function findRow(text: string, label: string): string {
  return new RegExp(`^${label} +(.*)$`, 'm').exec(text)?.[1] ?? expect.unreachable(`no ${label} in ${text}`)
}

test('dev serves, shows admission, limit and recovery, and leaves nothing behind', async () => {
  const limits = { RATE_LIMITS: '5/10s, 1000/1h', KEY_PREFIX: 'a.b', ...PATIENT }
  const { child, printed, exited, ready } = startDev({ ...limits, PORT: '1' }, ['--port', '0'])
  await ready
  const shell = async (label: string) => (await run('sh', ['-c', findRow(printed.text, label)])).stdout

  expect(await shell('admit')).toMatch(/^HTTP\/1.1 200 /)
  // On a slow machine, the window may go on meanwhile.
  expect(await shell('limit')).toMatch(/^ *[45] 200\n *[23] 429\n$/)
  expect(await shell('recovery')).toMatch(/^HTTP\/1.1 200 /)

  const [, dashboard = '', token] = /^(\S+) {2}token (\S{32})$/.exec(findRow(printed.text, 'operators')) ?? []
  const headers = { Authorization: `Bearer ${token}` }
  expect((await fetch(dashboard)).status).toBe(200)
  expect((await fetch(new URL('admin/status', dashboard), { headers })).status).toBe(200)
  expect((await fetch(new URL('admin/status', dashboard))).status).toBe(401)

  const ports = [...printed.text.matchAll(/(?:127\.0\.0\.1:|port )(\d+)/g)].map(([, port]) => Number(port))
  expect(new Set(ports).size).toBe(4)
  child.kill('SIGINT')
  expect(await exited).toBe(0)
  for (const port of new Set(ports)) {
    const server = createServer().listen(port, '127.0.0.1')
    await once(server, 'listening')
    server.close()
  }
})

test('dev holds limits, and follows rules, in Durable Objects, without any Redis', async () => {
  const rules = { RULES: 'on', RULES_REFRESH_MS: '100', ADMIN_TOKEN: 'x'.repeat(32) }
  const variables = { RATE_LIMITS: '2/1h', ...PATIENT, ...rules }
  const { printed, ready } = startDev(variables, ['--store', 'durable-object'])
  await ready
  expect(findRow(printed.text, 'store')).toContain('Durable Objects')
  expect(printed.text).not.toContain('redis')
  const url = findRow(printed.text, 'Sluice')
  const statuses: number[] = []
  expect(findRow(printed.text, 'command')).toBe(`npm run sluice -- usage a --gateway ${url}`)
  const ask = async (token: string) => (await fetch(url, { headers: { Authorization: `Bearer ${token}` } })).status
  for (let i = 0; i < 3; i++) statuses.push(await ask('a'))
  expect(statuses).toEqual([200, 200, 429])

  const written = await fetch(new URL('/_sluice/admin/block', url), {
    method: 'POST',
    headers: { Authorization: `Bearer ${variables.ADMIN_TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ target: { token: 'b' }, actor: 'test', comment: 'test' }),
  })
  expect([written.status, await written.json()]).toEqual([200, expect.objectContaining({ version: 1 })])
  await expect.poll(() => ask('b')).toBe(403)
})

test('dev runs both stores, one alongside the other, for whoever tries a move, and goes on when Redis ends, which comes back', async () => {
  const stores = { STORE: 'durable-object', STORE_MIRROR: 'redis' }
  const { printed, ready } = startDev({ ...stores, ...PATIENT }, ['--away', '0.5'])
  await ready
  expect(findRow(printed.text, 'store')).toContain('Durable Objects')
  expect(findRow(printed.text, 'mirror')).toContain('over redis-server')
  const ask = async () => (await fetch(findRow(printed.text, 'Sluice'))).status
  expect(await ask()).toBe(200)

  const port = /on port (\d+)/.exec(printed.text)?.[1] ?? ''
  await run('redis-cli', ['-p', port, 'SHUTDOWN'])
  await reported(printed).toContain('redis-server has ended. Redis is away for 0.5 s')
  expect(await ask()).toBe(200)
  await reported(printed).toContain(`redis-server runs again on port ${port}`)
  // It is charged again as soon as the gateway asks it again.
  const keys = async () => {
    expect(await ask()).toBe(200)
    return Number((await run('redis-cli', ['-p', port, 'DBSIZE'])).stdout)
  }
  await expect.poll(keys, { timeout: 20_000 }).toBeGreaterThan(0)
})

test('dev --help says what there is', async () => {
  const { printed, exited } = startDev({}, ['--help'])
  expect(await exited).toBe(0)
  await reported(printed).toMatch(
    /^ {2}--port <port> .*\n {2}--store <store> .*\n {2}--away <seconds> .*\n {2}--help /m,
  )
})

test('dev uses the services it is given, and unpacks what a client has not requested packed', async () => {
  let pack: [encoding: string, pack: (text: string) => Buffer] = ['gzip', gzipSync]
  const upstream = createHttpServer((_request, response) => {
    response.writeHead(200, { 'content-encoding': pack[0], 'content-type': 'text/plain' }).end(pack[1]('hello'))
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void upstream.close())
  await once(upstream, 'listening')
  const given = {
    UPSTREAM_URL: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
    UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:2',
    UPSTASH_REDIS_REST_TOKEN: 'token',
    RATE_LIMITS: '5/1m, 9/1h',
    POLICIES: '[{"name":"slots","algorithm":"concurrency","limits":"3"}]',
  }
  const { printed, ready } = startDev({ ...given, ADMIN_TOKEN: 'x'.repeat(32), ADMIN_HOST: 'admin.localhost:1' })
  await ready
  expect(findRow(printed.text, 'operators')).toBe('http://admin.localhost:1/_sluice/  token as in ADMIN_TOKEN')
  expect(findRow(printed.text, 'upstream')).toBe(given.UPSTREAM_URL)
  expect(findRow(printed.text, 'store')).toBe(given.UPSTASH_REDIS_REST_URL)
  expect(findRow(printed.text, 'limits')).toBe('default: 5 per 1m, 9 per 1h; slots: 3 at once')
  // As they come: Node's fetch would ask for gzip, and unpack it.
  const get = async (headers: Record<string, string>) => {
    const [response] = await once(request(findRow(printed.text, 'Sluice'), { headers }).end(), 'response')
    return [response.headers['content-encoding'], await buffer(response)]
  }
  expect(await get({})).toEqual([undefined, Buffer.from('hello')])
  expect(await get({ 'accept-encoding': 'identity' })).toEqual([undefined, Buffer.from('hello')])
  const [encoding, packed] = await get({ 'accept-encoding': 'gzip' })
  expect([encoding, `${gunzipSync(packed)}`]).toEqual(['gzip', 'hello'])
  pack = ['br', brotliCompressSync]
  expect(await get({})).toEqual([undefined, Buffer.from('hello')])
})

test.for([
  [{ RATE_LIMITS: '0/1s' }, /^RATE_LIMITS: expected .* got "0\/1s": "0" is no limit from 1 to 4294967295\n$/],
  [{ UPSTASH_REDIS_REST_URL: 'http://127.0.0.1' }, /^UPSTASH_REDIS_REST_TOKEN: expected .*\n$/],
  [{ RATE_LIMIT: '9/1s' }, /^RATE_LIMIT: unknown variable; did you mean RATE_LIMITS\?\n$/],
  [{ PORT: 'http' }, /^PORT: expected 0 to 65535, got "http"\n$/],
  [{}, /^--port: expected 0 to 65535, got "http"\n$/, ['--port', 'http']],
  [{}, /^STORE: expected "redis" or .*, got "disk"\n$/, ['--store', 'disk']],
  [{}, /^Unknown option '--prot'.*\n$/, ['--prot', '1']],
] as const)('dev refuses %j with one line', async ([env, line, args]) => {
  const { printed, exited } = startDev(env, args)
  expect(await exited).toBe(1)
  await reported(printed).toMatch(line)
})

test('dev refuses a port that is taken with one line', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const { printed, exited } = startDev({ PORT: `${port}` })
  expect(await exited).toBe(1)
  await reported(printed).toMatch(
    new RegExp(`^PORT: expected one that is free, got ${port} \\(EADDRINUSE\\); .*--port ${port + 1}\\n$`),
  )
})
