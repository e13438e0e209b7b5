import { afterEach, describe, expect, inject, test, vi } from 'vitest'
import type { DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { AlgorithmName } from '../../src/core/model/limits.ts'
import type { Store } from '../../src/core/model/store.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { createSha1 } from '../../src/core/runtime/hash.ts'
import { EntriesToRead } from '../../src/core/store/redis/entries-to-read.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { KEY_LOCKING } from '../../src/core/store/redis/redis-calls.ts'
import { joinScript } from '../../src/core/store/redis/script.ts'
import { openUpstashBackend, type UpstashStoreOptions } from '../../src/core/store/redis/upstash-backend.ts'
import { createCharge } from '../support/charges.ts'

afterEach(() => vi.unstubAllGlobals())

const ALGORITHMS = new Set(['sliding-window'] as const)
const REST_URL = 'https://eu1-hush.upstash.io'
const TOKEN = 'hush-token'
const KEY = 'sluice:default:w:{hush-identity}'

interface Call {
  readonly url: string
  readonly init: RequestInit
  readonly command: readonly (string | number)[]
}

/** Puts `answer` in the place of the network; without one, calls are only watched. */
function watchFetch(answer: (call: Call, index: number) => Promise<Response> = realFetch): readonly Call[] {
  const calls: Call[] = []
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    const call = { url, init, command: JSON.parse(String(init.body)) }
    return answer(call, calls.push(call) - 1)
  })
  return calls
}

const network = globalThis.fetch
function realFetch({ url, init }: Call): Promise<Response> {
  return network(url, init)
}

function names(calls: readonly Call[]): readonly string[] {
  return calls.map(({ command }) => String(command[0]).toLowerCase())
}

const result = (value: unknown) => Response.json({ result: value })
const error = (message: string, status = 400) => Response.json({ error: message }, { status })
const NOSCRIPT = 'NOSCRIPT No matching script. Please use EVAL.'
const DECISION = [1, 1_700_000_000_000, 4, 60_000, 0]

function createStore(options: Partial<UpstashStoreOptions> = {}): Store {
  return openUpstashBackend({
    url: REST_URL,
    token: TOKEN,
    algorithms: ALGORITHMS,
    moreLua: LUA,
    timeoutMs: 60_000,
    ...options,
  }).limits
}

function take(key: string): DecisionRequest {
  const limits = [{ limit: 5, windowMs: 60_000 }]
  const charge = { key, algorithm: 'sliding-window', limits, cost: 1, mode: 'enforce', reserved: 0 } as const
  return { action: 'take', permits: 1, charges: [charge] }
}

describe('against a real Redis', () => {
  /** Makes a script that Redis has not seen. */
  const unseen = () => {
    const quota = { ...LUA.quota, lua: `-- ${crypto.randomUUID()}\n${LUA.quota.lua}` }
    return { algorithms: new Set<AlgorithmName>(['sliding-window', 'quota']), moreLua: { ...LUA, quota } }
  }
  const locking = () => ({ url: inject('redisRestUrl'), token: inject('redisRestToken'), ...unseen() })
  const plain = () => ({ ...locking(), url: inject('plainRestUrl') })
  const remaining = async (store: Store, request: DecisionRequest) =>
    (await store.decide(request)).usage[0]?.[0]?.remaining

  test('RedisStore#decide() sends a script once, with the key-locking line, and from then on its hash', async () => {
    const calls = watchFetch()
    const options = locking()
    const store = createStore(options)
    const request = take(crypto.randomUUID())
    expect(await remaining(store, request)).toBe(4)
    expect(names(calls)).toEqual(['evalsha', 'eval'])
    expect(await remaining(store, request)).toBe(3)
    expect(await remaining(createStore(options), request)).toBe(2)
    expect(names(calls)).toEqual(['evalsha', 'eval', 'evalsha', 'evalsha'])
    expect(calls[1]?.command[1]).toBe(KEY_LOCKING + joinScript('decide', options.algorithms, options.moreLua))
    const hash = await createSha1(KEY_LOCKING + joinScript('decide', options.algorithms, options.moreLua))
    expect([0, 2, 3].map((index) => calls[index]?.command[1])).toEqual([hash, hash, hash])
  })

  test('RedisStore#decide() finds out that Redis does not know the key-locking line, and remembers it', async () => {
    const calls = watchFetch()
    const options = plain()
    const store = createStore(options)
    const request = take(crypto.randomUUID())
    expect(await remaining(store, request)).toBe(4)
    expect(names(calls)).toEqual(['evalsha', 'eval', 'evalsha', 'eval'])
    expect(calls[3]?.command[1]).toBe(joinScript('decide', options.algorithms, options.moreLua))
    for (const left of [3, 2, 1]) {
      const before = calls.length
      expect(await remaining(store, request)).toBe(left)
      expect(names(calls.slice(before))).toEqual(['evalsha'])
      expect(calls.at(-1)?.command[1]).toBe(await createSha1(joinScript('decide', options.algorithms, options.moreLua)))
    }
  })

  test.each([
    ['with key locking', locking],
    ['on plain Redis', plain],
  ])('RedisStore#decide() %s charges concurrent first requests once each', async (_name, options) => {
    const store = createStore(options())
    const request = take(crypto.randomUUID())
    const decisions = await Promise.all(Array.from({ length: 8 }, () => store.decide(request)))
    expect(decisions.map(({ granted }) => granted).sort()).toEqual([0, 0, 0, 1, 1, 1, 1, 1])
  })

  test('RedisStore fails with a StoreError if the token is not the right one', async () => {
    const store = createStore({ ...locking(), token: TOKEN })
    const message = 'Redis answered an error: WRONGPASS invalid or missing auth token'
    await expect(store.decide(take(KEY))).rejects.toThrow(new StoreError(message))
    await expect(store.ping()).rejects.toThrow(new StoreError(message))
  })
})

test('RedisStore#decide() sends a bare command: no encoding, no telemetry, no sync token', async () => {
  const calls = watchFetch(async () => result(DECISION))
  await createStore().decide(take(KEY))
  expect(calls).toHaveLength(1)
  const { url, init, command } = calls[0] as Call
  expect([url, init.method]).toEqual([REST_URL, 'POST'])
  const headers = Object.fromEntries(new Headers(init.headers))
  expect(headers).toEqual({ 'content-type': 'application/json', authorization: `Bearer ${TOKEN}` })
  const numbers = ['take', 1, 0, 'w', 3, 5, 60_000, 8]
  expect(command).toEqual([
    'evalsha',
    await createSha1(KEY_LOCKING + joinScript('decide', ALGORITHMS, LUA)),
    1,
    KEY,
    ...numbers,
  ])
})

test('RedisStore#decide() answers what the script replied', async () => {
  watchFetch(async () => result(DECISION))
  expect(await createStore().decide(take(KEY))).toEqual({
    granted: 1,
    nowMs: 1_700_000_000_000,
    usage: [[{ remaining: 4, resetMs: 60_000, retryAfterMs: 0 }]],
  })
})

test('RedisStore#decide() sends the script again after Redis has dropped it', async () => {
  const answers = [result(DECISION), error(NOSCRIPT), result(DECISION), result(DECISION)]
  const calls = watchFetch(async (_call, index) => answers[index] as Response)
  const store = createStore()
  await store.decide(take(KEY))
  await store.decide(take(KEY))
  await store.decide(take(KEY))
  expect(names(calls)).toEqual(['evalsha', 'evalsha', 'eval', 'evalsha'])
})

test.each([
  "ERR Unexpected flag in script shebang: 'allow-key-locking'",
  "ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'",
])('RedisStore#decide() leaves the key-locking line off after "%s"', async (message) => {
  const isPlain = ({ command }: Call) => !String(command[1]).startsWith(KEY_LOCKING)
  const calls = watchFetch(async (call) => {
    if (names([call])[0] === 'evalsha') return error(NOSCRIPT)
    return isPlain(call) ? result(DECISION) : error(message)
  })
  expect((await createStore().decide(take(KEY))).granted).toBe(1)
  expect(names(calls)).toEqual(['evalsha', 'eval', 'evalsha', 'eval'])
})

test('RedisStore#decide() does not go round in circles if no variant of the script is taken', async () => {
  const message = 'ERR Unexpected flag in script shebang'
  const calls = watchFetch(async (call) => error(names([call])[0] === 'evalsha' ? NOSCRIPT : message))
  await expect(createStore().decide(take(KEY))).rejects.toThrow(new StoreError(`Redis answered an error: ${message}`))
  expect(names(calls)).toEqual(['evalsha', 'eval', 'evalsha', 'eval'])
})

test.each(['ERR max daily request limit exceeded', 'OOM command not allowed', 'ERR NOSCRIPT is not how this begins'])(
  'RedisStore#decide() repeats nothing after the error "%s"',
  async (message) => {
    const calls = watchFetch(async () => error(message))
    await expect(createStore().decide(take(KEY))).rejects.toThrow(new StoreError(`Redis answered an error: ${message}`))
    expect(names(calls)).toEqual(['evalsha'])
  },
)

test('RedisStore#decide() gives up at the deadline, and repeats nothing', async () => {
  const calls = watchFetch(
    (call) =>
      new Promise((_, reject) => call.init.signal?.addEventListener('abort', () => reject(call.init.signal?.reason))),
  )
  const store = createStore({ timeoutMs: 20 })
  const expected = new StoreError('Redis did not answer within the deadline')
  await expect(store.decide(take(KEY))).rejects.toThrow(expected)
  await expect(store.ping()).rejects.toThrow(expected)
  expect(names(calls)).toEqual(['evalsha', 'ping'])
})

test('RedisStore#decide() has one deadline for a decision, and sends nothing after it', async () => {
  const answers = [Promise.withResolvers<Response>(), Promise.withResolvers<Response>()]
  const sent = Promise.withResolvers<void>()
  const calls = watchFetch((_call, index) => {
    if (index === 1) sent.resolve()
    return answers[index]?.promise ?? expect.unreachable()
  })
  const failure = createStore({ timeoutMs: 1_000 }).decide(take(KEY))
  // The first answer leads to a second call, which the deadline of the first one ends.
  answers[0]?.resolve(error(NOSCRIPT))
  await sent.promise
  await expect(failure).rejects.toThrow(new StoreError('Redis did not answer within the deadline'))
  // As plain Redis does, to which the first line is not known: in time, it would be asked again.
  answers[1]?.resolve(error('ERR Unexpected flag in script shebang: allow-key-locking'))
  await new Promise((resolve) => setTimeout(resolve))
  expect(names(calls)).toEqual(['evalsha', 'eval'])
})

test('RedisStore#decide() repeats nothing if Redis cannot be reached', async () => {
  const calls = watchFetch(() => Promise.reject(new TypeError(`Network connection lost to ${REST_URL}`)))
  const expected = new StoreError('Redis could not be reached, or its answer could not be read')
  await expect(createStore().decide(take(KEY))).rejects.toThrow(expected)
  await expect(createStore().ping()).rejects.toThrow(expected)
  expect(names(calls)).toEqual(['evalsha', 'ping'])
})

test.each<[string, () => Response]>([
  ['a string', () => result('OK')],
  ['null', () => result(null)],
  ['no result', () => Response.json({})],
  ['JSON null', () => Response.json(null)],
  ['a bare list', () => Response.json(DECISION)],
  ['a shorter list', () => result([1])],
  ['strings', () => result(DECISION.map(String))],
  ['an error with status 200', () => error('ERR no', 200)],
  ['no JSON', () => new Response(`<html>${KEY}`)],
  ['nothing', () => new Response('')],
  ['a page with an error status', () => new Response(`<html>${KEY}`, { status: 502 })],
  ['JSON null with an error status', () => Response.json(null, { status: 500 })],
  ['an error that is no string', () => Response.json({ error: { message: KEY } }, { status: 500 })],
])('RedisStore#decide() fails with a StoreError if Redis answers %s', async (_name, answer) => {
  const calls = watchFetch(async () => answer())
  const failure = await createStore()
    .decide(take(KEY))
    .catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(StoreError)
  expect((failure as StoreError).message).not.toMatch(/hush|</)
  expect(calls).toHaveLength(1)
})

test.each([
  `ERR unknown command 'EVALSHA', with args beginning with: '0123' '1' '${KEY}' `,
  `WRONGTYPE ${KEY} holds the wrong kind of value`,
  `ERR ${TOKEN} is not the token`,
  `ERR ${'x'.repeat(170)} ${KEY}`,
])('RedisStore#decide() says neither key nor token, even if Redis does: "%s"', async (message) => {
  watchFetch(async () => error(message))
  const failure = await createStore()
    .decide(take(KEY))
    .catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(StoreError)
  expect((failure as StoreError).message).not.toContain('hush')
})

test('RedisStore#ping() calls for a pong', async () => {
  const calls = watchFetch(async () => result('PONG'))
  await expect(createStore().ping()).resolves.toBeUndefined()
  expect(names(calls)).toEqual(['ping'])
})

test.each([null, 'OK', [], '1'])('RedisStore#release() and #revoke() take %j for no answer', async (value) => {
  watchFetch(async () => result(value))
  const charge = { ...(take(KEY).charges[0] as StoreCharge), algorithm: 'concurrency', slot: 1 } as const
  await expect(createStore().release([charge])).rejects.toThrow(StoreError)
  await expect(createStore().revoke([{ charge, isKnown: true }])).rejects.toThrow(StoreError)
})

const LIMITS = [
  { limit: 100, windowMs: 1_000 },
  { limit: 1_000, windowMs: 60_000 },
]
const CHARGE = createCharge('sliding-window', LIMITS, { key: 'sluice:default:w:{x}', cost: 2 })

function findEntriesAfter(
  replies: readonly (readonly [remaining: number, remaining: number])[],
  charges = [CHARGE],
  permits = 1,
) {
  const entriesToRead = new EntriesToRead()
  for (const left of replies) {
    const usage = charges.map(() => left.map((remaining) => ({ remaining, resetMs: 1, retryAfterMs: 0 })))
    entriesToRead.update({ action: 'take', permits, charges }, { granted: 1, nowMs: 1, usage })
  }
  return charges.map((each) => entriesToRead.find(each))
}

test('EntriesToRead: as many entries of this size are read as the fullest of the limits holds that hold few, and three more', () => {
  expect(findEntriesAfter([])).toEqual([undefined])
  expect(findEntriesAfter([[100, 1_000]])).toEqual([3])
  expect(findEntriesAfter([[98, 996]])).toEqual([5])
  expect(findEntriesAfter([[98, 990]])).toEqual([8])
  expect(findEntriesAfter([[98, 982]])).toEqual([8])
  expect(findEntriesAfter([[98, 980]])).toEqual([4])
  expect(findEntriesAfter([[90, 980]], [CHARGE], 5)).toEqual([5])
})

test('EntriesToRead: the newest alone is read if each limit holds many', () => {
  expect(findEntriesAfter([[80, 980]])).toEqual([1])
  expect(findEntriesAfter([[80, 980]], [CHARGE], 5)).toEqual([5])
  expect(
    findEntriesAfter([
      [80, 980],
      [98, 980],
    ]),
  ).toEqual([4])
})

test('EntriesToRead: no more is read than a limit can hold, and the entry before', () => {
  const short: StoreCharge = { ...CHARGE, limits: [{ limit: 9, windowMs: 1_000 }] }
  expect(findEntriesAfter([[1, 1]], [short])).toEqual([5])
  const strict: StoreCharge = { ...CHARGE, limits: [{ limit: 1, windowMs: 1_000 }], cost: 1 }
  expect(findEntriesAfter([[0, 0]], [strict])).toEqual([2])
})

test('EntriesToRead: other algorithms have no streams, and other keys are not meant', () => {
  const sorted: StoreCharge = { ...CHARGE, key: 'sluice:other:z:{x}', algorithm: 'sorted-set' }
  expect(findEntriesAfter([[0, 0]], [CHARGE, sorted])).toEqual([1, undefined])
})
