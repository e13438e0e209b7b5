import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { Agent, createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { text as readText } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { findFreePort } from '../../tools/free-port.ts'
import { type RedisServer, startRedisServer } from '../../tools/redis-server.ts'
import { DECIDE_TOKEN } from '../support/decisions.ts'
import { json, openRequest, responseTo, type Sent, send } from '../support/http-client.ts'
import { connectRedis } from '../support/redis-client.ts'
import { type ServingProcess, startServing } from '../support/serving-process.ts'
import { runInside } from './run-command.ts'

const AUTHORIZED = { Authorization: `Bearer ${DECIDE_TOKEN}`, 'Content-Type': 'application/json' }

const request = (question: object): Sent => ({
  method: 'POST',
  path: '/_sluice/decide',
  headers: AUTHORIZED,
  body: JSON.stringify(question),
})

describe('sluice serve', () => {
  let serving: readonly ServingProcess[]
  beforeAll(async () => {
    const variables = {
      REDIS_URL: `redis://127.0.0.1:${inject('redisPort')}`,
      KEY_PREFIX: randomUUID(),
      POLICIES: [{ name: 'login', by: 'ip', match: 'POST /login', limits: '1/1h', algorithm: 'quota' }],
      RATE_LIMITS: '3/1h',
      RULES: 'on',
    }
    serving = await Promise.all([startServing(variables), startServing(variables)])
  })
  afterAll(() => Promise.all((serving ?? []).map((each) => each.stop())))
  const urls = () => serving.map(({ url }) => url) as [URL, URL]

  test('counts together with others that have the same Redis', async () => {
    const [one, other] = urls()
    const question = { policy: 'default', identity: 'a' }
    const answers = [one, other, one, other].map((url) => send(url, request(question)))
    const granted = (await Promise.all(answers)).map((answer) => (json(answer) as { granted: boolean }).granted)
    expect(granted.filter(Boolean).length).toBe(3)
  })

  test('answers proxies by the policies of requests', async () => {
    const statuses: number[] = []
    for (const url of urls()) {
      const headers = {
        'Sluice-Token': DECIDE_TOKEN,
        'X-Forwarded-Method': 'POST',
        'X-Forwarded-Uri': '/login',
        'X-Forwarded-Host': 'api.test',
        'X-Forwarded-For': '192.0.2.1',
      }
      statuses.push((await send(url, { path: '/_sluice/authorize', headers })).status)
    }
    expect(statuses).toEqual([200, 429])
  })

  test('reports its health, and forwards and counts nothing else', async () => {
    const [url] = urls()
    const health = await send(url, { path: '/_sluice/health' })
    expect([health.status, json(health)]).toEqual([
      200,
      expect.objectContaining({ status: 'ok', store: expect.objectContaining({ kind: 'redis', reachable: true }) }),
    ])
    for (const path of ['/', '/login', '/_sluice', '/_sluice/nothing', '/_sluice/../login']) {
      const answer = await send(url, { path, headers: { Authorization: 'Bearer b' } })
      expect([path, answer.status, json(answer)]).toEqual([path, 404, expect.objectContaining({ code: 'not_found' })])
    }
    const { body } = await send(url, request({ policy: 'default', identity: ['token', 'b'] }))
    expect(JSON.parse(body.toString())).toMatchObject({ granted: true, limits: [{ remaining: 2 }] })
  })
})

test('sluice serve refuses a host that is none, and closes the connection of a body that it does not read', async () => {
  const serving = await startServing({ STORE: 'memory' })
  onTestFinished(() => serving.stop())
  const { hostname, port } = serving.url
  const ask = async (text: string) => {
    const socket = connect(Number(port), hostname)
    socket.write(text)
    return readText(socket)
  }
  expect(await ask('GET /_sluice/health HTTP/1.1\r\nHost: 999.1.1.1\r\nConnection: close\r\n\r\n')).toMatch(
    /^HTTP\/1\.1 400 .*invalid_target/s,
  )
  const head = `POST /_sluice/decide HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${DECIDE_TOKEN}\r\nContent-Length: 300000\r\n`
  for (const [type, status] of [
    ['application/json', 413],
    ['text/plain', 415],
  ] as const) {
    const answer = await ask(`${head}Content-Type: ${type}\r\n\r\n{`)
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [^]*\r\nconnection: close\r\n`, 'i'))
  }
  const kept = await send(serving.url, { path: '/_sluice/health', agent: new Agent({ keepAlive: true }) })
  expect(kept.headers.connection).toBe('keep-alive')
})

test.each(['SIGTERM', 'SIGINT'] as const)(
  'sluice serve answers what it has begun to when it gets %s',
  async (signal) => {
    const serving = await startServing({ STORE: 'memory' })
    const { body = '', ...sent } = request({ policy: 'default', identity: 'a' })
    const headers = { ...sent.headers, 'Content-Length': `${body.length}`, Expect: '100-continue' }
    const client = openRequest(serving.url, { ...sent, headers })
    client.flushHeaders()
    // It has the request.
    await once(client, 'continue')
    const ended = serving.end(signal)
    const isOpen = () =>
      send(serving.url, { path: '/_sluice/health' }).then(
        () => true,
        () => false,
      )
    while (await isOpen()) await sleep(20)
    client.end(body)
    const response = await responseTo(client)
    expect(response.statusCode).toBe(200)
    response.resume()
    expect(await ended).toEqual({ code: 0, stderr: '' })
  },
)

test('sluice serve sends what it has counted before it ends, however early that is', async () => {
  const KEY_PREFIX = randomUUID()
  const REDIS_URL = `redis://127.0.0.1:${inject('redisPort')}`
  const serving = await startServing({ REDIS_URL, KEY_PREFIX, STATISTICS: 'on' })
  const headers = {
    ...{ 'Sluice-Token': DECIDE_TOKEN, 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': '/' },
    ...{ 'X-Forwarded-Host': 'api.test', 'X-Forwarded-For': '192.0.2.1' },
  }
  expect((await send(serving.url, { path: '/_sluice/authorize', headers })).status).toBe(200)
  expect(await serving.end('SIGTERM')).toEqual({ code: 0, stderr: '' })
  const redis = await connectRedis(inject('redisPort'))
  const totals = await redis.keys(`${KEY_PREFIX}:statistics:*`)
  redis.destroy()
  expect(totals.length).toBeGreaterThan(0)
})

test.each(['local', 'closed'])(
  'sluice serve starts while Redis is down, decides "%s", and then with it',
  async (decides) => {
    const port = await findFreePort()
    const serving = await startServing({
      ...{
        REDIS_URL: `redis://127.0.0.1:${port}`,
        ON_STORE_ERROR: decides,
        RATE_LIMITS: '5/1h',
        STORE_TIMEOUT_MS: 500,
      },
    })
    const decide = async () => {
      const { body } = await send(serving.url, request({ policy: 'default', identity: 'a' }))
      return JSON.parse(body.toString()) as { granted: boolean; degraded?: string }
    }
    let redis: RedisServer | undefined
    try {
      expect(await decide()).toMatchObject({ granted: decides === 'local', degraded: decides })
      redis = await startRedisServer({ port })
      let answer = await decide()
      while (answer.degraded !== undefined) {
        await sleep(20)
        answer = await decide()
      }
      expect(answer.granted).toBe(true)
    } finally {
      await redis?.stop()
      const { stderr } = await serving.end()
      expect(stderr).toContain(
        `Redis at 127.0.0.1:${port} cannot be reached (ECONNREFUSED): until it is, ON_STORE_ERROR decides`,
      )
    }
  },
)

describe('sluice serve does not start', () => {
  const run = (env: Record<string, string>, ...args: string[]) =>
    runInside(['serve', '--port', '0', ...args], { env: { DECIDE_TOKEN, STORE: 'memory', ...env } })

  test.each([
    [
      'without a token',
      { DECIDE_TOKEN: '' },
      2,
      'error: DECIDE_TOKEN: expected at least 32 characters, for those who ask, got nothing\n',
    ],
    [
      'with a short token',
      { DECIDE_TOKEN: 'x' },
      2,
      /^error: DECIDE_TOKEN: expected at least 32 characters .*, got a value not shown here\n/,
    ],
    [
      'with a wrong value',
      { RATE_LIMITS: '1' },
      2,
      /^error: RATE_LIMITS: expected limits such as .*, got "1": "1" lacks a window\n/,
    ],
    ['with a second store', { STORE_MIRROR: 'redis' }, 2, /^error: STORE_MIRROR: expected nothing with sluice serve/],
    [
      'on Durable Objects',
      { STORE: 'durable-object' },
      2,
      /^error: STORE: expected "redis" or "memory" with sluice serve/,
    ],
    ['without a database', { STORE: '' }, 2, /^error: no database is named\n/],
  ] as const)('%s', async (_, env, code, message) => {
    const { stderr, stdout, ...outcome } = await run(env as Record<string, string>)
    expect([outcome.code, stdout]).toEqual([code, ''])
    expect(stderr).toEqual(
      typeof message === 'string' ? expect.stringContaining(message) : expect.stringMatching(message),
    )
  })

  test.each([
    ['no password', '', /^error: Redis answered an error: NOAUTH .*\n {2}User, password or token are not those/],
    [
      'a wrong password',
      ':wrong@',
      /^error: Redis answered an error: WRONGPASS .*\n {2}User, password or token are not/,
    ],
  ])('with %s for its database', async (_, credentials, message) => {
    const redis = await startRedisServer({ args: ['--requirepass', 'planted-hush'] })
    onTestFinished(() => redis.stop())
    const { code, stdout, stderr } = await run({
      STORE: '',
      REDIS_URL: `redis://${credentials}127.0.0.1:${redis.port}`,
    })
    expect([code, stdout]).toEqual([3, ''])
    expect(stderr).toMatch(message)
  })

  test('at a port that is taken', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address() as AddressInfo
    const { code, stderr } = await run({}, '--port', `${port}`)
    taken.close()
    expect([code, stderr]).toEqual([2, `error: cannot listen at 127.0.0.1:${port} (EADDRINUSE)\n`])
  })
})

test('the Dockerfile runs the command that is built, where its health is asked for, on the Node that tests run on', async () => {
  const root = join(import.meta.dirname, '../..')
  const [dockerfile = '', manifest = ''] = await Promise.all(
    ['Dockerfile', 'package.json'].map((file) => readFile(join(root, file), 'utf8')),
  )
  const read = (pattern: RegExp) => pattern.exec(dockerfile)?.[1] ?? ''
  const versions = [...dockerfile.matchAll(/^FROM (?:--\S+ )?node:([\d.]+)-/gm)].map(([, version]) => version)
  const { node } = JSON.parse(manifest).devDependencies
  expect(versions).toEqual([node, node])
  expect(dockerfile).toContain('COPY --from=build /sluice/lib/command ./\n')
  expect(JSON.parse(read(/^ENTRYPOINT (.*)$/m)).slice(0, 3)).toEqual(['node', 'cli.js', 'serve'])
  const { stdout } = await runInside(['serve', '--help'])
  expect(stdout).toContain(`default: ${read(/^EXPOSE (\d+)$/m)}, env: PORT`)

  const [PORT, HEALTH_PATH] = [`${await findFreePort()}`, read(/^ENV .*HEALTH_PATH=(\S+)/m)]
  const [, ...check] = JSON.parse(read(/^HEALTHCHECK CMD (.*)$/m))
  const judge = (path: string) =>
    once(
      spawn(process.execPath, check, {
        env: { ...process.env, PORT, HEALTH_PATH: path },
        stdio: 'ignore',
      }),
      'exit',
    )
  const serving = await startServing({ STORE: 'memory', PORT }, [], { port: [] })
  onTestFinished(() => serving.stop())
  expect(serving.url.port).toBe(PORT)
  expect(await judge(HEALTH_PATH)).toEqual([0, null])
  expect(await judge('/elsewhere')).toEqual([1, null])
})
