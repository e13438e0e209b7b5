/** What calls of Redis make of its answers, over a client that answers as it is told; test/contract has the real one. */
import { expect, test, vi } from 'vitest'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import { Deadlines } from '../../src/core/runtime/call-context.ts'
import { createSha1 } from '../../src/core/runtime/hash.ts'
import { adaptUpstash, type RedisClient, readUpstashWords } from '../../src/core/store/redis/client.ts'
import { RedisCounters } from '../../src/core/store/redis/counters/redis-counters.ts'
import { RedisDocuments } from '../../src/core/store/redis/documents/redis-documents.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { KEY_LOCKING, RedisCalls, toCount, toScript, toTexts } from '../../src/core/store/redis/redis-calls.ts'
import { RedisStore } from '../../src/core/store/redis/redis-store.ts'
import { openUpstashBackend } from '../../src/core/store/redis/upstash-backend.ts'
import { createCharge, take } from '../support/charges.ts'

const HOUR_MS = 3_600_000

/** A client that answers each call as it is told, and notes it. */
function createClient(answer: (name: string, ...args: unknown[]) => unknown, own: Partial<RedisClient> = {}) {
  const sent: unknown[][] = []
  const call =
    (name: string) =>
    async (...args: unknown[]) => {
      sent.push([name, ...args])
      return answer(name, ...args)
    }
  const client = {
    ...Object.fromEntries(['evalsha', 'eval', 'zrem', 'del', 'ping'].map((name) => [name, call(name)])),
    serverWords: (error: unknown) => (error instanceof Error && error.name === 'Answer' ? error.message : undefined),
    ...own,
  } as unknown as RedisClient
  return { sent, client }
}

const answered = (message: string) => Object.assign(new Error(message), { name: 'Answer' })
const UNEXPECTED = 'unexpected reply from Redis'

// Calls

const SCRIPT = () => toScript('return 1')

function createCalls(answer: (name: string, ...args: unknown[]) => unknown, own: Partial<RedisClient> = {}) {
  const { sent, client } = createClient(answer, own)
  return { sent, calls: new RedisCalls({ client, timeoutMs: 1_000, secrets: ['hush'] }) }
}

test('RedisCalls#evaluate() sends what Redis knows by its hash, and what it does not as text', async () => {
  const sha1 = await createSha1(`${KEY_LOCKING}return 1`)
  const known = createCalls(() => 7)
  expect(await known.calls.evaluate(SCRIPT(), ['k'], [1])).toBe(7)
  expect(known.sent).toEqual([['evalsha', sha1, ['k'], [1]]])
  const unknown = createCalls((name) => {
    if (name === 'evalsha') throw answered('NOSCRIPT No matching script.')
    return 7
  })
  expect(await unknown.calls.evaluate(SCRIPT(), ['k'], [1])).toBe(7)
  expect(unknown.sent).toEqual([
    ['evalsha', sha1, ['k'], [1]],
    ['eval', `${KEY_LOCKING}return 1`, ['k'], [1]],
  ])
})

test('RedisCalls#evaluate() leaves the key-locking line out once Redis has not known it', async () => {
  for (const words of ['ERR Unexpected flag in script shebang', "ERR unexpected symbol near '#'"]) {
    const { sent, calls } = createCalls((name, text) => {
      if (name === 'evalsha') throw answered('NOSCRIPT No matching script.')
      if (String(text).startsWith(KEY_LOCKING)) throw answered(words)
      return 7
    })
    expect(await calls.evaluate(SCRIPT(), [], [])).toBe(7)
    expect(await calls.evaluate(SCRIPT(), [], [])).toBe(7)
    expect(sent.map(([name]) => name)).toEqual(['evalsha', 'eval', 'evalsha', 'eval', 'evalsha', 'eval'])
  }
})

test.each<[string, unknown, string, string]>([
  ['an error of the script', answered('ERR wrong'), 'evalsha', 'Redis answered an error: ERR wrong'],
  ['NOSCRIPT elsewhere', answered('ERR NOSCRIPT'), 'evalsha', 'Redis answered an error: ERR NOSCRIPT'],
  ['NOSCRIPTS', answered('NOSCRIPTS x'), 'evalsha', 'Redis answered an error: NOSCRIPTS x'],
  ['no answer', new Error('socket'), 'evalsha', 'Redis could not be reached, or its answer could not be read'],
  ['no error', 'thrown', 'evalsha', 'the call to Redis failed'],
  ['secrets', answered('ERR hush: k and k2, hush'), 'evalsha', 'Redis answered an error: ERR …: … and …2, …'],
  ['long words', answered('x'.repeat(300)), 'evalsha', `Redis answered an error: ${'x'.repeat(200)}`],
])('RedisCalls#evaluate() does not repeat a call after %s', async (_name, error, name, message) => {
  const { sent, calls } = createCalls(() => {
    throw error
  })
  const failure = await calls.evaluate(SCRIPT(), ['k'], []).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(StoreError)
  expect(failure).toMatchObject({ message, mayHaveRun: true })
  expect(sent.map(([name]) => name)).toEqual([name])
})

test('RedisCalls says why there is no connection, and hands on what is a StoreError', async () => {
  const refused = createCalls(
    () => {
      throw new Error('socket')
    },
    { readFailure: () => 'ECONNREFUSED' },
  )
  await expect(refused.calls.call((client) => client.ping())).rejects.toThrow(/could not be read \(ECONNREFUSED\)$/)
  const own = new StoreError('its own')
  const handed = createCalls(() => {
    throw own
  })
  await expect(handed.calls.call((client) => client.ping())).rejects.toBe(own)
  await expect(
    handed.calls.call(() => {
      throw own
    }),
  ).rejects.toBe(own)
})

test('RedisCalls sends nothing after its deadline', async () => {
  let connect = () => {}
  const connecting = new Promise<void>((resolve) => {
    connect = resolve
  })
  const { client, sent } = createClient(() => 7, { connecting: () => connecting })
  const calls = new RedisCalls({ client, timeoutMs: 5 })
  const late = calls.evaluate(SCRIPT(), [], [])
  await expect(late).rejects.toThrow('Redis did not answer within the deadline')
  connect()
  await new Promise((resolve) => setTimeout(resolve, 5))
  expect(sent).toEqual([])
  const deadlines = Deadlines.createForOne()
  const waitWithin = vi.spyOn(deadlines, 'waitWithin')
  expect(await new RedisCalls({ client, timeoutMs: 900 }).evaluate(SCRIPT(), [], [], deadlines)).toBe(7)
  expect(waitWithin).toHaveBeenCalledWith(900, expect.any(Promise))
})

test('toTexts() and toCount() read texts and counts, and nothing else', () => {
  expect(toTexts(['a', ''])).toEqual(['a', ''])
  expect(toTexts([])).toEqual([])
  for (const reply of [null, 'a', [1], ['a', null], { length: 0 }]) expect(() => toTexts(reply)).toThrow(UNEXPECTED)
  expect([toCount('0'), toCount('9'.repeat(15)), toCount('1'.repeat(16), 16)]).toEqual([
    0, 999_999_999_999_999, 1.111111111111111e15,
  ])
  for (const text of [undefined, '', '-1', '1.5', ' 1', '1 ', '1\n2', 'x1', '1x', '1'.repeat(16)]) {
    expect(() => toCount(text)).toThrow(UNEXPECTED)
  }
  expect(() => toCount('1'.repeat(17), 16)).toThrow(UNEXPECTED)
})

// Documents

const openDocuments = (reply: unknown) => {
  const { sent, client } = createClient(() => reply)
  return { sent, documents: new RedisDocuments({ client, key: 'doc', timeoutMs: 1_000 }) }
}
const STORED = ['3', '1700', 'me', 'why', 'id-3', '{"a":1}']
const STORED_DOCUMENT = { version: 3, atMs: 1_700, actor: 'me', comment: 'why', id: 'id-3', text: '{"a":1}' }

test('RedisDocuments#read() reads the newest document, unless it is known or there is none', async () => {
  const { documents, sent } = openDocuments(STORED)
  expect(await documents.read()).toEqual(STORED_DOCUMENT)
  await documents.read({ version: 2, id: 'id-2' })
  expect(sent.map(([, , keys, args]) => [keys, args])).toEqual([
    [['doc'], [0, '']],
    [['doc'], [2, 'id-2']],
  ])
  expect(await openDocuments(['3']).documents.read({ version: 3, id: 'id-3' })).toBeUndefined()
  const none = openDocuments(['0']).documents
  expect(await none.read()).toMatchObject({ version: 0, id: '', text: '' })
  expect(await none.read({ version: 1, id: 'id-1' })).toMatchObject({ version: 0 })
  expect(await none.read({ version: 0, id: '' })).toBeUndefined()
})

test('RedisDocuments reads a version that is kept, and the history', async () => {
  const { documents, sent } = openDocuments(STORED)
  expect(await documents.readVersion(3)).toEqual(STORED_DOCUMENT)
  expect(sent[0]?.slice(2)).toEqual([['doc'], [3]])
  expect(await openDocuments(['0']).documents.readVersion(3)).toBeUndefined()
  const { text: _, ...revision } = STORED_DOCUMENT
  const history = openDocuments([...STORED.slice(0, 5), '2', '1600', '', '', 'id-2'])
  expect(await history.documents.readHistory()).toEqual([
    revision,
    { version: 2, atMs: 1_600, actor: '', comment: '', id: 'id-2' },
  ])
  expect(history.sent[0]?.[3]).toEqual([20])
  expect(await openDocuments([]).documents.readHistory()).toEqual([])
})

test.each([1, 2, 3, 4, 5].map((length) => [length]))(
  'RedisDocuments takes %i parts of a version for no version',
  async (length) => {
    const { documents } = openDocuments(STORED.slice(0, length))
    if (length > 1) {
      await expect(documents.read()).rejects.toThrow(UNEXPECTED)
      await expect(documents.readVersion(3)).rejects.toThrow(UNEXPECTED)
    }
    if (length < 5) await expect(documents.readHistory()).rejects.toThrow(UNEXPECTED)
  },
)

test('RedisDocuments#write() writes a version under a new name, and says what has become of it', async () => {
  const write = { text: '{}', expectedVersion: 2, actor: 'a'.repeat(501), comment: 'c'.repeat(501) }
  const { documents, sent } = openDocuments(['written', '3', '1700'])
  const written = await documents.write(write)
  expect(written).toEqual({ kind: 'written', version: 3, id: expect.stringMatching(/^[\da-f-]{36}$/), atMs: 1_700 })
  await documents.write({ ...write, expectedId: 'id-2', kept: 5 })
  const notes = ['a'.repeat(500), 'c'.repeat(500)]
  expect(sent.map(([, , , args]) => args)).toEqual([
    [2, '{}', ...notes, 1_048_576, 20, (written as { id: string }).id],
    [2, '{}', ...notes, 1_048_576, 5, expect.any(String), 'id-2'],
  ])
  for (const kind of ['conflict', 'too-large', 'malformed']) {
    expect(await openDocuments([kind, '3']).documents.write(write)).toEqual({ kind, version: 3 })
    await expect(openDocuments([kind]).documents.write(write)).rejects.toThrow(UNEXPECTED)
  }
  for (const reply of [[], ['lost', '3', '1'], ['written', '3'], ['written', 'x', '1']]) {
    await expect(openDocuments(reply).documents.write(write)).rejects.toThrow(UNEXPECTED)
  }
})

// Statistics

const openCounters = (answer: (keys: string[]) => unknown) => {
  const { sent, client } = createClient((_name, _sha1, keys) => answer(keys as string[]))
  return { sent, counters: new RedisCounters({ client, keyPrefix: 'p', timeoutMs: 1_000 }) }
}
const NO_SKETCHES = { sketches: new Map() }

test('RedisCounters#add() sends a flush once, with each hash that it changes, and how long that is kept', async () => {
  const { counters, sent } = openCounters(() => 1)
  const sketch = { items: [{ name: 'x', count: 2, over: 1 }], floor: 0 }
  await counters.add({
    source: 'one',
    number: 4,
    minutes: [
      { startMs: 24 * HOUR_MS, counts: new Map([['hits', 3]]), sketches: new Map([['who', sketch]]) },
      { startMs: 24 * HOUR_MS + 60_000, counts: new Map([['hits', 5]]), ...NO_SKETCHES },
    ],
  })
  const [minuteMs, hourMs] = [600_000 + 4 * HOUR_MS, 24 * HOUR_MS + 60 * 24 * HOUR_MS]
  expect(sent).toHaveLength(1)
  expect(sent[0]?.slice(2)).toEqual([
    ['p:statistics:minutes:144', 'p:statistics:hours:1', 'p:statistics:totals'],
    [
      ...['@one', 4, 50],
      ...[minuteMs, 2, '0 hits', 3, '1 hits', 5, 1, '0~who', '0\nx 2 1'],
      ...[hourMs, 1, '0 hits', 8, 1, '0~who', '0\nx 2 1'],
      ...[61 * 24 * HOUR_MS, 1, 'hits', 8, 0],
    ],
  ])
  const add = (reply: unknown) =>
    openCounters(() => reply).counters.add({
      source: 'one',
      number: 1,
      minutes: [{ startMs: 0, counts: new Map(), ...NO_SKETCHES }],
    })
  await expect(add(0)).resolves.toBeUndefined()
  for (const reply of [2, -1, '1', null]) await expect(add(reply)).rejects.toThrow(UNEXPECTED)
})

test('RedisCounters#read() reads the hashes of a time, and from them the periods that overlap with it', async () => {
  const hashes: Record<string, string[]> = {
    'p:statistics:minutes:1': ['9 hits', '1', '2 hits', '2', '2~who', '0\nx 2 1', '@one', '7', '0 a b', '3'],
    'p:statistics:minutes:2': ['0 hits', '4', '1 hits', '5'],
  }
  const { counters, sent } = openCounters((keys) => keys.map((key) => hashes[key] ?? []))
  const read = (fromMs: number, toMs: number) => counters.read('minute', fromMs, toMs)
  expect(await read(600_000, 1_260_000)).toEqual([
    { startMs: 600_000, counts: new Map([['a b', 3]]), ...NO_SKETCHES },
    {
      startMs: 720_000,
      counts: new Map([['hits', 2]]),
      sketches: new Map([['who', { items: [{ name: 'x', count: 2, over: 1 }], floor: 0 }]]),
    },
    { startMs: 1_140_000, counts: new Map([['hits', 1]]), ...NO_SKETCHES },
    { startMs: 1_200_000, counts: new Map([['hits', 4]]), ...NO_SKETCHES },
  ])
  expect(sent[0]?.[2]).toEqual(Object.keys(hashes))
  expect((await read(660_000, 1_140_001)).map(({ startMs }) => startMs)).toEqual([720_000, 1_140_000])
  expect((await read(659_999, 1_140_000)).map(({ startMs }) => startMs)).toEqual([600_000, 720_000])
  sent.length = 0
  expect(await read(5, 5)).toEqual([])
  expect(await read(600_000, 600_000)).toEqual([])
  expect(sent.map(([, , keys]) => keys)).toEqual([['p:statistics:minutes:0']])
  // What is older is not kept.
  sent.length = 0
  await read(0, 100 * HOUR_MS)
  expect(sent[0]?.[2]).toContain('p:statistics:minutes:575')
  expect(sent[0]?.[2]).toHaveLength(25)
})

test('RedisCounters#readTotals() reads the sums, of which some are no longer exact', async () => {
  const { counters, sent } = openCounters(() => [['hits', '3', 'ms', '9'.repeat(16)]])
  expect(await counters.readTotals()).toEqual(
    new Map([
      ['hits', 3],
      ['ms', 1e16],
    ]),
  )
  expect(sent[0]?.slice(2)).toEqual([['p:statistics:totals'], []])
  expect(await openCounters(() => [[]]).counters.readTotals()).toEqual(new Map())
})

test.each<[unknown]>([
  [null],
  [[]],
  [[[], []]],
  [[null]],
  [[['0 hits']]],
  [[['0 hits', 1]]],
  [[['0 hits', '-1']]],
  [[['0 hits', '1'.repeat(17)]]],
  [[['hits', '1']]],
  [[['x0 hits', '1']]],
  [[['0 ', '1']]],
  [[['0-hits', '1']]],
  [[['0~who', '-1']]],
])('RedisCounters#read() takes %j for no answer', async (reply) => {
  await expect(openCounters(() => reply).counters.read('minute', 0, 1)).rejects.toThrow(UNEXPECTED)
})

// Limits

const REPLY = [1, 1_700, 4, 60_000, 0]
const createStore = (answer: (name: string) => unknown) => {
  const { sent, client } = createClient(answer)
  return { sent, store: new RedisStore({ client, algorithms: ['sliding-window'], moreLua: LUA, timeoutMs: 1_000 }) }
}
const charge = createCharge('sliding-window', [{ limit: 5, windowMs: 60_000 }], { key: 'k:{a}' })

test('RedisStore sends one script for the algorithms that it has met, and each main chunk once', async () => {
  const { sent, store } = createStore(() => REPLY)
  const hashes = () => sent.map(([, sha1]) => sha1)
  for (let i = 0; i < 2; i++) await store.decide(take([charge]))
  expect(new Set(hashes()).size).toBe(1)
  const quota = { ...charge, algorithm: 'quota' as const }
  for (let i = 0; i < 2; i++) await store.decide(take([quota]))
  expect(new Set(hashes()).size).toBe(2)
  await store.decide(take([charge]))
  expect(hashes()[4]).toBe(hashes()[3])
  await store.settle([{ charge: quota, units: -1 }], 5)
  expect(hashes()[5]).not.toBe(hashes()[4])
  expect(sent[5]?.slice(2)).toEqual([['k:{a}'], [5, 'q', 1, -1, 2, 5, 60_000]])
})

test('RedisStore releases, revokes, renews and deletes what it is told', async () => {
  const slot = { ...charge, algorithm: 'concurrency' as const, slot: 7, cost: 2 }
  const { sent, store } = createStore(() => 1)
  await store.release([slot])
  await store.revoke([{ charge: slot, isKnown: false }])
  await store.renew([slot])
  await store.delete(['k:{a}', 'k:{b}'])
  expect(
    sent.map(([name, first, ...others]) => (name === 'evalsha' ? [name, ...others] : [name, first, ...others])),
  ).toEqual([
    ['zrem', 'k:{a}', ['7:1', '7:2']],
    ['evalsha', ['k:{a}'], [7, 2, 'unknown']],
    ['evalsha', ['k:{a}'], [60_000, 7, 2]],
    ['del', ['k:{a}', 'k:{b}']],
  ])
  const failing = (reply: unknown): Store => createStore(() => reply).store
  await expect(failing(2).revoke([{ charge: slot, isKnown: true }])).rejects.toThrow(UNEXPECTED)
  for (const reply of ['1', null, 1.5]) await expect(failing(reply).delete(['k'])).rejects.toThrow(UNEXPECTED)
})

// Upstash

test('adaptUpstash() hands on each call as the client takes it', async () => {
  const { sent, client } = createClient((name) => name)
  const adapted = adaptUpstash(client as never)
  expect(await adapted.evalsha('sha', ['k'], [1])).toBe('evalsha')
  expect(await adapted.eval('text', ['k'], [1])).toBe('eval')
  expect(await adapted.zrem('k', ['a', 'b'])).toBe('zrem')
  expect(await adapted.zrem('k', [])).toBe('zrem')
  expect(await adapted.del(['a', 'b'])).toBe('del')
  expect(await adapted.ping()).toBe('ping')
  expect(sent).toEqual([
    ['evalsha', 'sha', ['k'], [1]],
    ['eval', 'text', ['k'], [1]],
    ['zrem', 'k', 'a', 'b'],
    ['zrem', 'k', ''],
    ['del', 'a', 'b'],
    ['ping'],
  ])
  const words = (name: string, message: string) => readUpstashWords(Object.assign(new Error(message), { name }))
  expect(words('UpstashError', 'ERR wrong, command was: ["eval"], command was: x')).toBe('ERR wrong')
  expect(words('UpstashError', '')).toBe('')
  expect([words('Error', 'ERR wrong'), readUpstashWords({ name: 'UpstashError' })]).toEqual([undefined, undefined])
})

test('openUpstashBackend() connects with its token, once for each purpose, and says it in no error', async () => {
  const connected: unknown[] = []
  const backend = openUpstashBackend({
    url: 'https://a.test',
    token: 'hush',
    algorithms: ['sliding-window'],
    timeoutMs: 900,
    connect: (database, timeoutMs) => {
      connected.push([database, timeoutMs])
      return createClient(() => {
        throw answered('ERR hush is no token')
      }).client
    },
  })
  const database = { url: 'https://a.test', token: 'hush' }
  expect(connected).toEqual([
    [database, undefined],
    [database, 4_000],
  ])
  const said = 'Redis answered an error: ERR … is no token'
  await expect(backend.limits.ping()).rejects.toThrow(said)
  await expect((await backend.documents('doc')).read()).rejects.toThrow(said)
  await expect((await backend.counters({ keyPrefix: 'p', timeoutMs: 70 })).readTotals()).rejects.toThrow(said)
  expect(connected.slice(2)).toEqual([
    [database, undefined],
    [database, 70],
  ])
})
