import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ClientReadableStream } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { openConfig } from '../../../src/ratelimit-service/watch-config.ts'
import { findFreePort } from '../../../tools/free-port.ts'
import { DECIDE_TOKEN } from '../../support/decisions.ts'
import { call, descriptor, encodeRequest, type Fields, RateLimitClient } from '../../support/rate-limit-client.ts'
import { type ServingProcess, startServing } from '../../support/serving-process.ts'
import { runInside } from '../run-command.ts'

const CONFIG = JSON.stringify({
  domain: 'd',
  descriptors: [
    { key: 'user', rate_limit: { unit: 'hour', requests_per_unit: 10, name: 'by-user' } },
    { key: 'plan', rate_limit: { limits: '3/1h, 5/1d' } },
    { key: 'tokens', rate_limit: { unit: 'week', requests_per_unit: 10, algorithm: 'quota' } },
    { key: 'large', rate_limit: { unit: 'year', requests_per_unit: 4_000_000 } },
    { key: 'none', rate_limit: { unit: 'hour', requests_per_unit: 0 } },
    { key: 'service', value: 'one', quota_mode: true, rate_limit: { unit: 'hour', requests_per_unit: 1 } },
    { key: 'service', value: 'two', quota_mode: true, rate_limit: { unit: 'hour', requests_per_unit: 2 } },
    { key: 'at', descriptors: [{ key: 'user', rate_limit: { unit: 'hour', requests_per_unit: 20 } }] },
    { key: 'in', descriptors: [{ key: 'user', rate_limit: { unit: 'hour', requests_per_unit: 30 } }] },
    { key: 'tried', shadow_mode: true, rate_limit: { unit: 'hour', requests_per_unit: 2 } },
  ],
})

let folder: string
let file: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  file = join(folder, 'limits.yaml')
  writeFileSync(file, CONFIG)
})
afterAll(() => rmSync(folder, { recursive: true }))

async function start(env: object = {}, args: readonly string[] = [], path = file) {
  const serving = await startServing({ STORE: 'memory', ...env }, ['--grpc', '0', '--ratelimit-config', path, ...args])
  return { serving, client: new RateLimitClient(serving.grpc) }
}

describe('sluice serve --grpc', () => {
  let serving: ServingProcess
  let client: RateLimitClient
  beforeAll(async () => {
    ;({ serving, client } = await start())
  })
  afterAll(async () => {
    client[Symbol.dispose]()
    await serving.stop()
  })
  const ask = async (entries: readonly string[], fields?: Fields) =>
    (await client.ask('d', [descriptor(entries, fields)])).statuses[0]

  test('charges the hits of the request, or of the descriptor, and tells when more remains', async () => {
    const { statuses } = await client.ask('d', [descriptor(['user', 'a'])], { hitsAddend: 4 })
    expect(statuses).toMatchObject([{ currentLimit: { name: 'by-user', unit: 'HOUR' }, limitRemaining: 6 }])
    expect(await ask(['user', 'a'], { hitsAddend: { value: 5 } })).toMatchObject({ code: 'OK', limitRemaining: 1 })
    const refused = await ask(['user', 'a'], { hitsAddend: { value: 2 } })
    expect(refused).toMatchObject({ code: 'OVER_LIMIT', limitRemaining: 1 })
    const { seconds = 0, nanos = 0 } = refused?.durationUntilReset ?? {}
    expect(seconds + nanos / 1e9).toBeGreaterThan(3_000)
    expect(seconds + nanos / 1e9).toBeLessThanOrEqual(3_600)
  })

  test('0 hits ask whether one more fits', async () => {
    const peek = () => ask(['user', 'b'], { hitsAddend: { value: 0 } })
    expect(await peek()).toMatchObject({ code: 'OK', limitRemaining: 10 })
    await ask(['user', 'b'], { hitsAddend: { value: 10 } })
    expect(await peek()).toMatchObject({ code: 'OVER_LIMIT', limitRemaining: 0 })
  })

  test('one refused descriptor, even one that only asks or that never admits, charges the others nothing', async () => {
    await ask(['plan', 'c'], { hitsAddend: { value: 3 } })
    for (const refusing of [
      descriptor(['plan', 'c']),
      descriptor(['plan', 'c'], { hitsAddend: { value: 0 } }),
      descriptor(['none', 'c']),
      descriptor(['user', 'other'], { hitsAddend: { value: 11 } }),
    ]) {
      const { overallCode, statuses } = await client.ask('d', [descriptor(['user', 'c']), refusing])
      expect([overallCode, ...statuses.map(({ code }) => code)]).toEqual(['OVER_LIMIT', 'OK', 'OVER_LIMIT'])
    }
    expect(await ask(['user', 'c'], { hitsAddend: { value: 0 } })).toMatchObject({ limitRemaining: 10 })
  })

  test('the same descriptor twice is charged twice, or not at all', async () => {
    const twice = Array.from({ length: 2 }, () => descriptor(['user', 'twice'], { hitsAddend: { value: 4 } }))
    expect(await client.ask('d', twice)).toMatchObject({
      overallCode: 'OK',
      statuses: Array(2).fill({ limitRemaining: 2 }),
    })
    expect((await client.ask('d', twice)).overallCode).toBe('OVER_LIMIT')
    expect(await ask(['user', 'twice'])).toMatchObject({ code: 'OK', limitRemaining: 1 })
  })

  test('several limits of one descriptor: the tightest is told', async () => {
    expect(await ask(['plan', 'd'])).toMatchObject({
      currentLimit: { requestsPerUnit: 3, unit: 'HOUR' },
      limitRemaining: 2,
    })
  })

  test('a limit in the request replaces that of the file, in the same count', async () => {
    const limit = { requestsPerUnit: 2, unit: 'HOUR' }
    expect(await ask(['user', 'e'])).toMatchObject({ limitRemaining: 9 })
    expect(await ask(['user', 'e'], { limit })).toMatchObject({ code: 'OK', currentLimit: limit, limitRemaining: 0 })
    expect(await ask(['user', 'e'], { limit })).toMatchObject({ code: 'OVER_LIMIT' })
    expect(await ask(['user', 'e'])).toMatchObject({ code: 'OK', limitRemaining: 7 })
    await expect(ask(['user', 'e'], { limit: { requestsPerUnit: 2, unit: 0 } })).rejects.toThrow(
      /2 UNKNOWN: descriptors\[0\]: limit\.unit: expected one of second, /,
    )
  })

  test('hits are given back by algorithms that can', async () => {
    await ask(['tokens', 'f'], { hitsAddend: { value: 8 } })
    const given = await ask(['tokens', 'f'], { hitsAddend: { value: 5 }, isNegativeHits: true })
    expect(given).toMatchObject({ code: 'OK', currentLimit: { unit: 'WEEK' }, limitRemaining: 7 })
    await expect(ask(['user', 'f'], { isNegativeHits: true })).rejects.toThrow(
      'descriptors[0]: sliding-window cannot give back hits; expected an algorithm of token-bucket, fixed-window, quota',
    )
  })

  test('the same descriptor with a limit of its own is judged by both limits, and charged once for each', async () => {
    const request = [
      descriptor(['user', 'both']),
      descriptor(['user', 'both'], { limit: { requestsPerUnit: 3, unit: 'HOUR' } }),
    ]
    const answers = [await client.ask('d', request), await client.ask('d', request)]
    expect(answers.map(({ overallCode, statuses }) => [overallCode, ...statuses.map(({ code }) => code)])).toEqual([
      ['OK', 'OK', 'OK'],
      ['OVER_LIMIT', 'OK', 'OVER_LIMIT'],
    ])
    expect(await ask(['user', 'both'], { hitsAddend: { value: 0 } })).toMatchObject({ limitRemaining: 8 })
  })

  test('hits that never fit are over the limit until the window of the clock ends', async () => {
    const { seconds = 0, nanos = 0 } =
      (await ask(['user', 'never'], { hitsAddend: { value: 11 } }))?.durationUntilReset ?? {}
    expect(seconds + nanos / 1e9).toBeGreaterThan(0)
    expect(seconds).toBeLessThan(3_600)
  })

  test('quotas refuse together, and other limits by themselves', async () => {
    const [one, two] = [descriptor(['service', 'one']), descriptor(['service', 'two'])]
    const request = [one, two, descriptor(['user', 'quotas'])]
    const codes: string[][] = []
    for (let time = 0; time < 3; time++) {
      const { overallCode, statuses } = await client.ask('d', request)
      codes.push([overallCode, ...statuses.map(({ code }) => code)])
    }
    expect(codes).toEqual([
      ['OK', 'OK', 'OK', 'OK'],
      ['OK', 'OVER_LIMIT', 'OK', 'OK'],
      ['OVER_LIMIT', 'OVER_LIMIT', 'OVER_LIMIT', 'OK'],
    ])
    expect(await ask(['user', 'quotas'], { hitsAddend: { value: 0 } })).toMatchObject({ limitRemaining: 8 })
    expect((await client.ask('d', [two, descriptor(['none', 'a'])])).overallCode).toBe('OVER_LIMIT')
  })

  test('a limit and hits may be as large as the messages can say', async () => {
    const limit = { requestsPerUnit: 4_294_967_295, unit: 'YEAR' }
    const hitsAddend = { value: 4_294_967_295 }
    expect(await ask(['huge', 'a'], { limit, hitsAddend })).toMatchObject({
      code: 'OK',
      currentLimit: limit,
      limitRemaining: 0,
    })
    expect(await ask(['huge', 'a'], { limit })).toMatchObject({ code: 'OVER_LIMIT' })
  })

  test('20,000 descriptors are decided in one request', async () => {
    const { overallCode, statuses } = await client.ask(
      'd',
      Array.from({ length: 20_000 }, (_, at) => descriptor(['user', `many-${at}`])),
    )
    expect([overallCode, statuses.length]).toEqual(['OK', 20_000])
  })

  test('limits above what an exact log should hold are counted in windows of the clock', async () => {
    expect(await ask(['large', 'g'])).toMatchObject({ code: 'OK', limitRemaining: 3_999_999 })
  })

  test('shadow mode reports what remains, and refuses not even what never fits', async () => {
    const { overallCode } = await client.ask('d', [descriptor(['tried', 'h'])], { hitsAddend: 3 })
    expect(overallCode).toBe('OK')
    expect(await ask(['tried', 'h'])).toMatchObject({ code: 'OK', limitRemaining: 1 })
  })

  test('headers tell the limits', async () => {
    const { responseHeadersToAdd } = await client.ask('d', [descriptor(['user', 'i'])])
    expect(responseHeadersToAdd.map(({ key, value }) => [key, value])).toEqual([
      ['ratelimit', '"by-user-1h";r=9;t=3600'],
      ['ratelimit-policy', '"by-user-1h";q=10;w=3600'],
    ])
  })

  test('headers name each limit as metrics do, and of several users the one who has the least', async () => {
    const request = [
      descriptor(['at', 'x', 'user', 'j']),
      descriptor(['in', 'x', 'user', 'j']),
      descriptor(['in', 'x', 'user', 'k']),
    ]
    await client.ask('d', request.slice(-1))
    const { responseHeadersToAdd } = await client.ask('d', request)
    expect(responseHeadersToAdd[0]?.value).toBe('"at-user-1h";r=19;t=3600, "in-user-1h";r=28;t=3600')
  })

  test('grpc.health.v1', async () => {
    for (const service of ['', 'ratelimit', 'envoy.service.ratelimit.v3.RateLimitService']) {
      expect(await call(client.health, 'Check', { service })).toEqual({ status: 'SERVING' })
    }
    await expect(call(client.health, 'Check', { service: 'x' })).rejects.toThrow('5 NOT_FOUND')
  })
})

test('--each-descriptor charges each by itself, and what does not fit as far as it does', async () => {
  const { serving, client } = await start({}, ['--each-descriptor'])
  const { overallCode } = await client.ask('d', [descriptor(['none', 'a']), descriptor(['user', 'a'])])
  expect(overallCode).toBe('OVER_LIMIT')
  const used = await client.ask('d', [descriptor(['user', 'a'])], { hitsAddend: 20 })
  expect(used).toMatchObject({ overallCode: 'OVER_LIMIT', statuses: [{ code: 'OVER_LIMIT', limitRemaining: 0 }] })
  const answered = await client.ask('d', [descriptor(['user', 'a'], { hitsAddend: { value: 0 } })])
  expect(answered.overallCode).toBe('OVER_LIMIT')
  // In shadow mode, too.
  await client.ask('d', [descriptor(['tried', 'a'])], { hitsAddend: 3 })
  const tried = await client.ask('d', [descriptor(['tried', 'a'], { hitsAddend: { value: 0 } })])
  expect(tried).toMatchObject({ overallCode: 'OK', statuses: [{ code: 'OK', limitRemaining: 0 }] })
  const quotas = [descriptor(['service', 'one']), descriptor(['service', 'two'])]
  const codes = []
  for (let time = 0; time < 3; time++) codes.push((await client.ask('d', quotas)).overallCode)
  expect(codes).toEqual(['OK', 'OK', 'OVER_LIMIT'])
  client[Symbol.dispose]()
  await serving.stop()
})

test('RATELIMIT_HEADERS chooses the headers', async () => {
  const { serving, client } = await start({ RATELIMIT_HEADERS: 'draft-6' })
  const { responseHeadersToAdd } = await client.ask('d', [descriptor(['user', 'a']), descriptor(['plan', 'a'])])
  expect(Object.fromEntries(responseHeadersToAdd.map(({ key, value }) => [key, value]))).toMatchObject({
    'ratelimit-limit': '3',
    'ratelimit-remaining': '2',
  })
  client[Symbol.dispose]()
  await serving.stop()
})

test('MODE=shadow tells what is over its limit, and refuses nothing', async () => {
  const { serving, client } = await start({ MODE: 'shadow' })
  const { overallCode, statuses } = await client.ask('d', [descriptor(['none', 'a'])])
  expect([overallCode, statuses[0]?.code]).toEqual(['OK', 'OVER_LIMIT'])
  client[Symbol.dispose]()
  await serving.stop()
})

test('a changed file is read, and a wrong one changes nothing', async () => {
  const path = join(folder, 'changing.yaml')
  writeFileSync(path, CONFIG)
  const { serving, client } = await start({}, [], path)
  const readLimit = async () => {
    const { statuses } = await client.ask('d', [descriptor(['user', 'a'], { hitsAddend: { value: 0 } })])
    return statuses[0]?.currentLimit?.requestsPerUnit
  }
  await client.ask('d', [descriptor(['user', 'a'])], { hitsAddend: 4 })
  writeFileSync(path, CONFIG.replace('"requests_per_unit":10', '"requests_per_unit":20'))
  while ((await readLimit()) !== 20) await client.ask('d', [descriptor(['other', 'a'])])
  // The count goes on.
  const { statuses } = await client.ask('d', [descriptor(['user', 'a'], { hitsAddend: { value: 0 } })])
  expect(statuses[0]?.limitRemaining).toBe(16)
  expect((await serving.end()).stderr).toBe(`${path}: the changed configuration is active\n`)
  client[Symbol.dispose]()
})

test('openConfig() keeps what it has while a file is wrong, and says so once', async () => {
  const path = join(folder, 'wrong.yaml')
  writeFileSync(path, CONFIG)
  const notes: string[] = []
  const watched = openConfig(path, 'local', (text) => notes.push(text))
  const { domains } = watched
  writeFileSync(path, 'domain: d\ndescriptors: [{ key: user, rate_limit: { unit: fortnight } }]')
  await vi.waitUntil(() => notes.length > 0, 60_000)
  expect(watched.domains).toBe(domains)
  rmSync(path)
  await vi.waitUntil(() => notes.length > 1, 60_000)
  expect(watched.domains).toBe(domains)
  writeFileSync(path, CONFIG)
  await vi.waitUntil(() => watched.domains !== domains, 60_000)
  watched.close()
  expect(notes).toEqual([
    `${path}:2:48: expected a unit (second, minute, hour, day, month, year, week), got "fortnight"; the configuration before stays active`,
    expect.stringMatching(/^ENOENT: .*; the configuration before stays active$/),
    `${path}: the changed configuration is active`,
  ])
})

test('openConfig() notes each time that a file vanishes, also if it returns unchanged', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const path = join(folder, 'vanishing.yaml')
  const notes: string[] = []
  writeFileSync(path, CONFIG)
  const watched = openConfig(path, 'local', (text) => notes.push(text))
  for (let time = 1; time <= 2; time++) {
    rmSync(path)
    vi.advanceTimersByTime(2_000)
    expect(notes).toHaveLength(time)
    writeFileSync(path, CONFIG)
    vi.advanceTimersByTime(2_000)
  }
  watched.close()
})

test('a decision whose deadline is over charges nothing', async () => {
  const { serving, client } = await start()
  const session = connect(`http://${serving.grpc}`)
  const stream = session.request({
    ':method': 'POST',
    ':path': '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
    'content-type': 'application/grpc',
    'grpc-timeout': '1n',
    te: 'trailers',
  })
  let status: unknown
  for (const event of ['response', 'trailers']) stream.on(event, (fields) => (status ??= fields['grpc-status']))
  stream.end(encodeRequest({ domain: 'd', descriptors: [descriptor(['user', 'late'])] }))
  await once(stream.resume(), 'close')
  session.close()
  expect(status).toBe('4')
  const answered = await client.ask('d', [descriptor(['user', 'late'], { hitsAddend: { value: 0 } })])
  expect(answered.statuses[0]?.limitRemaining).toBe(10)
  client[Symbol.dispose]()
  await serving.stop()
})

test('ON_STORE_ERROR=closed refuses while Redis is down', async () => {
  const hook = join(folder, 'hook.mjs')
  writeFileSync(hook, 'export default ({ outcome, decidedBy }) => console.error(outcome, "by", decidedBy)')
  const away = { STORE: '', ON_STORE_ERROR: 'closed', REDIS_URL: `redis://127.0.0.1:${await findFreePort()}` }
  const { serving, client } = await start(away, ['--on-decision', hook])
  for (const refused of [descriptor(['user', 'a']), descriptor(['service', 'one'])]) {
    const { overallCode, responseHeadersToAdd } = await client.ask('d', [refused])
    expect([overallCode, responseHeadersToAdd[0]?.value]).toEqual(['OVER_LIMIT', 'closed'])
  }
  client[Symbol.dispose]()
  const { stderr } = await serving.end()
  expect(stderr).toContain('unavailable by closed\n')
})

describe('at the HTTP port', () => {
  const send = (serving: ServingProcess, path: string, init: RequestInit = {}) =>
    fetch(new URL(path, serving.url), init)
  const headers = { Authorization: `Bearer ${DECIDE_TOKEN}`, 'Content-Type': 'application/json' }

  test('/json decides as gRPC does, and /healthcheck tells that it serves', async () => {
    const { serving, client } = await start()
    const ask = async (body: unknown) => {
      const answer = await send(serving, '/json', { method: 'POST', headers, body: JSON.stringify(body) })
      return [answer.status, (await answer.json()) as { overallCode?: string; statuses?: object }] as const
    }
    const descriptors = [{ entries: [{ key: 'user', value: 'json' }], hits_addend: '9' }]
    const [status, { overallCode, statuses }] = await ask({ domain: 'd', descriptors })
    expect([status, overallCode, statuses]).toEqual([
      200,
      'OK',
      [
        {
          ...{ code: 'OK', limitRemaining: 1, durationUntilReset: expect.stringMatching(/^[\d.]+s$/) },
          currentLimit: { name: 'by-user', requestsPerUnit: 10, unit: 'HOUR' },
        },
      ],
    ])
    expect(await ask({ domain: 'd', descriptors })).toMatchObject([429, { overallCode: 'OVER_LIMIT' }])
    expect(await ask({ domain: 'd' })).toMatchObject([400, { detail: 'expected at least one descriptor' }])
    expect(await ask({ domain: 'd', descriptors: [{ entry: [] }] })).toMatchObject([400, { code: 'invalid_input' }])
    expect((await send(serving, '/json', { method: 'POST', body: '{}' })).status).toBe(401)
    expect((await send(serving, '/elsewhere')).status).toBe(404)
    const health = await send(serving, '/healthcheck')
    expect([health.status, await health.text()]).toEqual([200, 'OK'])
    client[Symbol.dispose]()
    await serving.stop()
  })
})

test('a connection is closed when it is old, and clients notice nothing', async () => {
  const { serving, client } = await start({ GRPC_MAX_CONNECTION_AGE: '50ms', GRPC_MAX_CONNECTION_AGE_GRACE: '1m' })
  const session = connect(`http://${serving.grpc}`)
  const closed = once(session, 'close')
  await once(session, 'goaway')
  await closed
  for (let time = 0; time < 10; time++) await client.ask('d', [descriptor(['large', 'age'])])
  expect((await client.ask('d', [descriptor(['large', 'age'])])).statuses[0]?.limitRemaining).toBe(3_999_989)
  client[Symbol.dispose]()
  expect((await serving.end()).stderr).toBe('')
})

test('an unknown domain is noted once', async () => {
  const { serving, client } = await start()
  for (let time = 0; time < 2; time++) await client.ask('dd', [descriptor(['user', 'a'])])
  client[Symbol.dispose]()
  expect((await serving.end()).stderr).toBe('"dd" is no domain of the configuration, so it limits nothing\n')
})

test('SIGTERM: health turns to NOT_SERVING, and what was begun is answered', async () => {
  const { serving, client } = await start({ STORE: '', REDIS_URL: `redis://127.0.0.1:${inject('redisPort')}` })
  const watch = client.health.Watch as unknown as (request: object) => ClientReadableStream<{ status: string }>
  const watching = watch.call(client.health, { service: '' })
  const seen: string[] = []
  watching.on('data', ({ status }: { status: string }) => seen.push(status))
  await once(watching, 'data')
  const answered = Array.from({ length: 50 }, () => client.ask('d', [descriptor(['user', 'drain'])]))
  await Promise.race(answered)
  const [{ code, stderr }] = await Promise.all([serving.end(), once(watching, 'end')])
  const codes = (await Promise.all(answered)).map(({ overallCode }) => overallCode)
  expect([code, stderr, seen]).toEqual([0, '', ['SERVING', 'NOT_SERVING']])
  expect(codes.filter((each) => each === 'OK')).toHaveLength(10)
  client[Symbol.dispose]()
})

test('two processes with one Redis grant exactly the limit', { tags: ['slow'] }, async () => {
  const path = join(folder, 'exact.yaml')
  const limit = 50_000
  const rate_limit = { unit: 'day', requests_per_unit: limit }
  writeFileSync(path, JSON.stringify({ domain: 'd', descriptors: [{ key: 'all', rate_limit }] }))
  const env = { STORE: '', REDIS_URL: `redis://127.0.0.1:${inject('redisPort')}`, KEY_PREFIX: `exact-${process.pid}` }
  const both = await Promise.all([start(env, [], path), start(env, [], path)])
  let [answered, granted] = [0, 0]
  const askOn = async (client: RateLimitClient) => {
    while (answered++ < limit + 2_000) {
      const { overallCode } = await client.ask('d', [descriptor(['all', 'x'])])
      if (overallCode === 'OK') granted++
    }
  }
  await Promise.all(Array.from({ length: 64 }, (_, at) => askOn(both[at % 2]?.client as RateLimitClient)))
  expect(granted).toBe(limit)
  for (const { client, serving } of both) {
    client[Symbol.dispose]()
    await serving.stop()
  }
})

test.each([
  [
    '--grpc alone',
    ['--grpc', '0'],
    /^error: --grpc needs --ratelimit-config or --ratelimit-xds, and the other way round\n$/,
  ],
  [
    'a file and a server',
    ['--grpc', '0', '--ratelimit-config', 'x', '--ratelimit-xds', 'y:1'],
    /^error: --ratelimit-config and --ratelimit-xds cannot be given together\n$/,
  ],
  [
    'half a certificate',
    ['--grpc', '0', '--ratelimit-xds', 'y:1', '--ratelimit-xds-key', 'k'],
    /^error: --ratelimit-xds-cert needs/,
  ],
  ['--ratelimit-config alone', ['--ratelimit-config', 'x'], /^error: --grpc needs --ratelimit-config/],
  ['no file', ['--grpc', '0', '--ratelimit-config', '/nowhere.yaml'], /^error: ENOENT: .*\/nowhere\.yaml/],
  [
    'an empty folder',
    ['--grpc', '0', '--ratelimit-config', '/proc/self/fdinfo'],
    /expected files that end with \.yaml/,
  ],
])('sluice serve does not start with %s', async (_, args, message) => {
  const { code, stderr } = await runInside(['serve', '--port', '0', ...args], {
    env: { DECIDE_TOKEN, STORE: 'memory' },
  })
  expect(code).toBe(2)
  expect(stderr).toMatch(message)
})

test('sluice serve ends if its other port is taken', async () => {
  const { serving, client } = await start()
  const { port } = serving.url
  const args = ['--grpc', '0', '--ratelimit-config', file]
  const { code, stderr } = await runInside(['serve', '--port', port, ...args], {
    env: { DECIDE_TOKEN, STORE: 'memory' },
  })
  expect([code, stderr]).toEqual([2, `error: cannot listen at 127.0.0.1:${port} (EADDRINUSE)\n`])
  const grpc = serving.grpc.split(':')[1] ?? ''
  const taken = await runInside(['serve', '--port', '0', '--grpc', grpc, '--ratelimit-config', file], {
    env: { DECIDE_TOKEN, STORE: 'memory' },
  })
  expect([taken.code, taken.stderr]).toEqual([2, expect.stringMatching(/^error: .*EADDRINUSE/)])
  client[Symbol.dispose]()
  await serving.stop()
})
