import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { Redis } from '@upstash/redis'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { startRedisServer } from '../../tools/redis-server.ts'
import { startRestFront } from '../../tools/rest-front.ts'
import { share } from '../support/share.ts'

const SHEBANG = '#!lua flags=allow-key-locking\n'

const server = share(startRedisServer)
const front = share(() => startRestFront({ redisPort: server.port, token: 'secret' }))
beforeEach(async () => {
  await post('/', ['FLUSHALL'])
  await post('/', ['SCRIPT', 'FLUSH'])
})

async function send(path: string, init: RequestInit, { url } = front) {
  const response = await fetch(`${url}${path}`, init)
  return { status: response.status, body: await response.json() }
}

function post(path: string, body: unknown, headers: Record<string, string> = {}, to = front) {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return send(path, { method: 'POST', headers: { authorization: 'Bearer secret', ...headers }, body: text }, to)
}

const ok = (result: unknown) => ({ status: 200, body: { result } })
const failed = (error: unknown, status = 400) => ({ status, body: { error } })
const sha1 = (text: string) => createHash('sha1').update(text).digest('hex')

const UNAUTHORIZED = failed('WRONGPASS invalid or missing auth token', 401)
test.for([
  ['/', '', UNAUTHORIZED],
  ['/pipeline', '', UNAUTHORIZED],
  ['/multi-exec', '', UNAUTHORIZED],
  ...['Bearer wrong', 'Bearer', 'secret', 'Basic secret'].map((field) => ['/', field, UNAUTHORIZED] as const),
  ['/get/key', 'Bearer secret', failed('ERR not found', 404)],
] as const)('startRestFront() refuses a POST to %s by %j', async ([path, authorization, expected]) => {
  expect(await post(path, ['PING'], { authorization })).toEqual(expected)
})

test.for(['GET', 'PUT', 'DELETE'])('startRestFront() answers 405 to %s', async (method) => {
  const headers = { authorization: 'Bearer secret' }
  expect(await send('/', { method, headers })).toEqual(failed('ERR method not allowed', 405))
})

describe('startRestFront() answers one command', () => {
  test.for([
    [['PING'], 'PONG'],
    [['SET', 'key', 'value'], 'OK'],
    [['GET', 'none'], null],
    [['INCRBY', 'n', 3], 3],
    [['INCRBY', 'n', '1795255968000123'], 1795255968000123],
    [['ECHO', 'ä "quoted"\r\n'], 'ä "quoted"\r\n'],
    [['ECHO', true], 'true'],
    [
      ['EVAL', 'return {1, "a", {2, false}, {}}', 0],
      [1, 'a', [2, null], []],
    ],
    [
      ['EVAL', 'return {1, redis.error_reply("MY error")}', 0],
      [1, 'MY error'],
    ],
  ])('%j', async ([command, result]) => {
    expect(await post('/', command)).toEqual(ok(result))
  })

  test('with maps as flat arrays', async () => {
    await post('/', ['HSET', 'hash', 'a', '1', 'b', '2'])
    expect(await post('/', ['HGETALL', 'hash'])).toEqual(ok(['a', '1', 'b', '2']))
  })

  test('with the same connection for many requests', async () => {
    await Promise.all(Array.from({ length: 200 }, () => post('/', ['INCR', 'n'])))
    expect(await post('/', ['GET', 'n'])).toEqual(ok('200'))
  })
})

describe('startRestFront() answers 400 with the bare message', () => {
  test.for([
    [['GET'], "ERR wrong number of arguments for 'get' command"],
    [['NONE', 'a'], "ERR unknown command 'NONE', with args beginning with: 'a' "],
    [['EVALSHA', '0'.repeat(40), '0'], 'NOSCRIPT No matching script. Please use EVAL.'],
    [['EVAL', 'return redis.error_reply("MY error")', '0'], 'MY error'],
    [['SUBSCRIBE', 'channel'], "ERR Command is not available: 'SUBSCRIBE'"],
    [['multi'], "ERR Command is not available: 'multi'"],
  ])('%j', async ([command, error]) => {
    expect(await post('/', command)).toEqual(failed(error))
  })

  test.for([
    ['/', '', 'ERR failed to parse command'],
    ['/', '["PING"', 'ERR failed to parse command'],
    ['/', '{"PING":1}', 'ERR failed to parse command'],
    ['/', '["SET","a",null]', 'ERR failed to parse command'],
    ['/', '["SET","a",["b"]]', 'ERR failed to parse command'],
    ['/', '[]', 'ERR empty command'],
    ['/pipeline', '"PING"', 'ERR failed to parse pipeline request'],
    ['/pipeline', '["PING"]', 'ERR failed to parse pipeline command'],
    ['/pipeline', '[]', 'ERR empty pipeline request'],
    ['/pipeline', '[["PING"],[]]', 'ERR empty pipeline command'],
    ['/multi-exec', 'null', 'ERR failed to parse multi-exec request'],
    ['/multi-exec', '["PING"]', 'ERR failed to parse multi-exec command'],
    ['/multi-exec', '[]', 'ERR empty multi-exec request'],
  ] as const)('%s %s', async ([path, body, error]) => {
    expect(await post(path, body)).toEqual(failed(error))
  })

  test('to a body of more than 10 MiB', async () => {
    const body = JSON.stringify(['SET', 'key', 'a'.repeat(10 * 1024 * 1024)])
    const error = `ERR max request size exceeded. Limit: 10485760 bytes, Actual: ${body.length} bytes`
    expect(await post('/', body)).toEqual(failed(error))
    expect(await post('/', ['EXISTS', 'key'])).toEqual(ok(0))
  })
})

test('startRestFront() answers a pipeline, and a transaction, with 200 and one item per command', async () => {
  const [set, incr, get] = [
    ['SET', 'a', 'text'],
    ['INCR', 'a'],
    ['GET', 'a'],
  ]
  const answers = [{ result: 'OK' }, { error: 'ERR value is not an integer or out of range' }, { result: 'text' }]
  expect(await post('/multi-exec', [set, incr, get])).toEqual({ status: 200, body: answers })
  const refused = [
    { error: "ERR Command is not available: 'EXEC'" },
    { error: 'NOSCRIPT No matching script. Please use EVAL.' },
  ]
  expect(await post('/pipeline', [set, incr, get, ['EXEC'], ['EVALSHA', 'x', 0]])).toEqual({
    status: 200,
    body: [...answers, ...refused],
  })
})

describe('startRestFront() answers a transaction', () => {
  test.for([
    [['NONE'], "ERR unknown command 'NONE', with args beginning with: "],
    [['WATCH', 'a'], "ERR Command is not available: 'WATCH'"],
  ])('with one error, and nothing done, if it holds %j', async ([command, error]) => {
    expect(await post('/multi-exec', [['SET', 'a', '1'], command])).toEqual(failed(error))
    expect(await post('/', ['EXISTS', 'a'])).toEqual(ok(0))
  })

  test('atomically', async () => {
    const increments = Array.from({ length: 100 }, () => post('/', ['INCR', 'n']))
    const transactions = Array.from({ length: 100 }, () =>
      post('/multi-exec', [
        ['INCR', 'n'],
        ['INCR', 'n'],
      ]),
    )
    for (const { body } of await Promise.all(transactions)) {
      const [first, second] = body as { result: number }[]
      expect(second?.result).toBe((first?.result ?? Number.NaN) + 1)
    }
    await Promise.all(increments)
  })
})

describe('startRestFront() encodes strings on request', () => {
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const nested = ['EVAL', 'return {"a", {"b", 1}, redis.status_reply("OK")}', 0]
  const result = [base64('a'), [base64('b'), 1], 'OK']

  test.for([
    ['/', ['SET', 'a', 'ä'], ok('OK')],
    ['/', ['ECHO', 'ä'], ok(base64('ä'))],
    ['/', ['GET', 'none'], ok(null)],
    ['/', ['INCR', 'n'], ok(1)],
    ['/', ['PING'], ok(base64('PONG'))],
    ['/', ['EVAL', 'return "\\255\\0"', 0], ok('/wA=')],
    ['/', ['GET'], failed("ERR wrong number of arguments for 'get' command")],
    ['/', nested, ok(result)],
    ['/pipeline', [nested], { status: 200, body: [{ result }] }],
    ['/multi-exec', [nested], { status: 200, body: [{ result }] }],
  ] as const)('%s %j', async ([path, command, expected]) => {
    expect(await post(path, command, { 'upstash-encoding': 'base64' })).toEqual(expected)
  })
})

describe('startRestFront() takes scripts with flags', () => {
  const script = `${SHEBANG}return ARGV[1]`

  test('in EVAL, and then knows them by the hash of the text as sent', async () => {
    expect(await post('/', ['EVALSHA', sha1(script), 0, 'a'])).toEqual(
      failed('NOSCRIPT No matching script. Please use EVAL.'),
    )
    expect(await post('/', ['EVAL', script, 0, 'a'])).toEqual(ok('a'))
    expect(await post('/', ['EVALSHA', sha1(script), 0, 'b'])).toEqual(ok('b'))
    expect(await post('/', ['evalsha', sha1(script).toUpperCase(), 0, 'b'])).toEqual(ok('b'))
  })

  test('in SCRIPT LOAD and SCRIPT EXISTS', async () => {
    expect(await post('/', ['SCRIPT', 'LOAD', script])).toEqual(ok(sha1(script)))
    expect(await post('/', ['SCRIPT', 'EXISTS', sha1(script), sha1('other')])).toEqual(ok([1, 0]))
    expect(await post('/', ['EVALSHA', sha1(script), 0, 'c'])).toEqual(ok('c'))
    const loaded = { status: 200, body: [{ result: sha1(script) }] }
    expect(await post('/pipeline', [['script', 'load', script]])).toEqual(loaded)
    expect(await post('/multi-exec', [['script', 'load', script]])).toEqual(loaded)
  })

  test('until Redis drops them', async () => {
    await post('/', ['EVAL', script, 0, 'a'])
    await post('/', ['SCRIPT', 'FLUSH'])
    expect(await post('/', ['EVALSHA', sha1(script), 0, 'a'])).toEqual(failed(expect.stringMatching(/^NOSCRIPT /)))
  })

  test('and keeps the numbers of their lines', async () => {
    const script = `${SHEBANG}\nerror("here")`
    expect(await post('/', ['EVAL', script, 0])).toEqual(failed(expect.stringContaining('user_script:3: here')))
  })

  test('but hands the flags on if it is set to', async () => {
    const plain = await startRestFront({ redisPort: server.port, token: 'secret', stripShebang: false })
    onTestFinished(() => plain.stop())
    expect(await post('/', ['EVAL', script, 0, 'a'], {}, plain)).toEqual(
      failed('ERR Unexpected flag in script shebang: allow-key-locking'),
    )
    expect(await post('/', ['EVAL', 'return ARGV[1]', 0, 'a'], {}, plain)).toEqual(ok('a'))
  })
})

test('startRestFront() serves @upstash/redis', async () => {
  const redis = new Redis({ url: front.url, token: front.token })
  expect(await redis.set('key', { a: ['ä', 1] })).toBe('OK')
  expect(await redis.get('key')).toEqual({ a: ['ä', 1] })
  expect(await redis.multi().incr('n').incr('n').exec()).toEqual([1, 2])
  expect(await redis.createScript(`${SHEBANG}return {KEYS[1], 7}`).exec(['k'], [])).toEqual(['k', 7])
  await expect(redis.lpush('key', 1)).rejects.toThrow('WRONGTYPE')
})

test('startRestFront() answers later by delayMs', async () => {
  const far = await startRestFront({ redisPort: server.port, token: 'secret', delayMs: 100 })
  onTestFinished(() => far.stop())
  const sentMs = performance.now()
  expect(await post('/', ['PING'], {}, far)).toEqual(ok('PONG'))
  // A timer may be a millisecond early.
  expect(performance.now() - sentMs).toBeGreaterThanOrEqual(99)
})

test('startRestFront() counts requests', async () => {
  const counted = await startRestFront({ redisPort: server.port, token: 'secret' })
  onTestFinished(() => counted.stop())
  expect(counted.requests).toBe(0)
  await post('/', ['PING'], {}, counted)
  await post('/pipeline', [['PING'], ['PING']], {}, counted)
  await post('/', ['PING'], { authorization: 'Bearer wrong' }, counted)
  expect(counted.requests).toBe(3)
})

describe('startRestFront() without Redis', () => {
  async function startBoth() {
    const redis = await startRedisServer()
    onTestFinished(() => redis.stop())
    const own = await startRestFront({ redisPort: redis.port, token: 'secret' })
    onTestFinished(() => own.stop())
    return { redis, own, unavailable: failed(`ERR no answer from Redis at 127.0.0.1:${redis.port}`, 503) }
  }

  test('throws at the start', async () => {
    const { port, stop } = await startRedisServer()
    await stop()
    await expect(startRestFront({ redisPort: port, token: 'secret' })).rejects.toThrow(
      `no Redis at 127.0.0.1:${port}: `,
    )
  })

  test('answers 503, and serves again when Redis is back', async () => {
    const { redis, own, unavailable } = await startBoth()
    await redis.stop()
    expect(await post('/', ['PING'], {}, own)).toEqual(unavailable)
    expect(await post('/pipeline', [['PING'], ['PING']], {}, own)).toEqual(unavailable)
    expect(await post('/multi-exec', [['PING']], {}, own)).toEqual(unavailable)

    const next = await startRedisServer({ port: redis.port })
    onTestFinished(() => next.stop())
    await vi.waitFor(async () => expect(await post('/', ['PING'], {}, own)).toEqual(ok('PONG')), {
      interval: 10,
      timeout: 60_000,
    })
  })

  test('answers 503 to the requests that were under way', async () => {
    const { redis, own, unavailable } = await startBoth()
    const waiting = post('/', ['XREAD', 'BLOCK', 0, 'STREAMS', 'stream', '$'], {}, own)
    const queued = post('/multi-exec', [['PING'], ['PING']], {}, own)
    const observer = connect(redis.port, '127.0.0.1').setEncoding('utf8')
    onTestFinished(() => void observer.destroy())
    await new Promise<void>((resolve) => {
      observer.on('data', (info) =>
        `${info}`.includes('blocked_clients:1') ? resolve() : observer.write('INFO clients\r\n'),
      )
      observer.write('INFO clients\r\n')
    })
    await redis.stop()
    expect(await waiting).toEqual(unavailable)
    expect(await queued).toEqual(unavailable)
  })
})

test('stop() frees the port and may be repeated', async () => {
  const first = await startRestFront({ redisPort: server.port, token: 'secret' })
  const port = Number(new URL(first.url).port)
  await expect(startRestFront({ redisPort: server.port, token: 'secret', port })).rejects.toThrow('EADDRINUSE')
  await first.stop()
  await first.stop()
  const second = await startRestFront({ redisPort: server.port, token: 'secret', port })
  expect(second.url).toBe(first.url)
  await second.stop()
})
