/** What is sent to clients of Redis over TCP, one stand-in for each; test/integration/cluster and sentinel have the real ones. */
import { expect, test, vi } from 'vitest'
import type { RedisClient } from '../../src/core/store/redis/client.ts'
import { adaptIoRedis, adaptNodeRedis, type IoRedis, type NodeRedis } from '../../src/core/store/redis/tcp-clients.ts'

const SHA1 = 'ab12'

/** A client whose every method notes what it is called with, and answers its name. */
function createClient(names: readonly string[]) {
  const sent: unknown[] = []
  const methods = Object.fromEntries(
    names.map((name) => [
      name,
      async (...args: unknown[]) => {
        sent.push([name, ...args])
        return `${name} answered`
      },
    ]),
  )
  return { sent, methods }
}

/** Events of a connection, and who listens to which. */
function createEvents() {
  const listeners = new Map<string, () => void>()
  return {
    listeners,
    once: (event: string, listener: () => void) => void listeners.set(event, listener),
  }
}

async function callAll(client: RedisClient) {
  return [
    await client.evalsha(SHA1, ['k1', 'k2'], [1, 'two']),
    await client.eval('return 1', ['k1'], [3]),
    await client.zrem('k', ['a', 'b']),
    await client.del(['x', 'y']),
    await client.ping(),
  ]
}

function adaptIo(own: object = {}) {
  const { sent, methods } = createClient(['evalsha', 'eval', 'zrem', 'del', 'ping'])
  return { sent, client: adaptIoRedis({ ...methods, defineCommand: 1, ...own } as unknown as IoRedis) }
}

function adaptNode(own: object = {}) {
  const { sent, methods } = createClient(['evalSha', 'eval', 'zRem', 'del', 'ping'])
  return { sent, client: adaptNodeRedis({ ...methods, ...own } as unknown as NodeRedis) }
}

const OF_NODE_REDIS = [
  ['evalSha', SHA1, { keys: ['k1', 'k2'], arguments: ['1', 'two'] }],
  ['eval', 'return 1', { keys: ['k1'], arguments: ['3'] }],
  ['zRem', 'k', ['a', 'b']],
  ['del', ['x', 'y']],
  ['ping'],
]
const ANSWERS_OF_NODE_REDIS = ['evalSha', 'eval', 'zRem', 'del', 'ping'].map((name) => `${name} answered`)

test('adaptIoRedis() sends keys after their number, then arguments, and hands on the answers', async () => {
  const { sent, client } = adaptIo()
  expect(await callAll(client)).toEqual(['evalsha', 'eval', 'zrem', 'del', 'ping'].map((name) => `${name} answered`))
  expect(sent).toEqual([
    ['evalsha', SHA1, 2, 'k1', 'k2', 1, 'two'],
    ['eval', 'return 1', 1, 'k1', 3],
    ['zrem', 'k', 'a', 'b'],
    ['del', 'x', 'y'],
    ['ping'],
  ])
})

test('adaptNodeRedis() sends keys and arguments as texts, and hands on the answers', async () => {
  const { sent, client } = adaptNode()
  expect(await callAll(client)).toEqual(ANSWERS_OF_NODE_REDIS)
  expect(sent).toEqual(OF_NODE_REDIS)
})

test('clients of a cluster know the node of a slot, if they know the slot', () => {
  const io = adaptIo({ isCluster: true, slots: [['a:1', 'replica:1'], undefined, []] }).client
  expect(io.isCluster).toBe(true)
  expect([0, 1, 2, 3].map((slot) => io.findNode?.(slot))).toEqual(['a:1', undefined, undefined, undefined])
  const node = adaptNode({ nodeByAddress: new Map(), slots: [{ master: { address: 'a:1' } }, undefined] }).client
  expect(node.isCluster).toBe(true)
  expect([0, 1, 2].map((slot) => node.findNode?.(slot))).toEqual(['a:1', undefined, undefined])
  for (const { client } of [adaptIo(), adaptIo({ isCluster: false }), adaptNode()]) {
    expect([client.isCluster, client.findNode?.(0)]).toEqual([false, undefined])
  }
})

test.each(['ready', 'close', 'reconnecting', 'end'])('a first connection is awaited until its %s', async (event) => {
  for (const adapt of [
    (own: object) => adaptIo({ status: 'connecting', ...own }),
    (own: object) => adaptIo({ status: 'connect', ...own }),
    (own: object) => adaptNode({ isOpen: true, isReady: false, ...own }),
  ]) {
    const { listeners, once } = createEvents()
    const { client } = adapt({ once })
    const attempt = client.connecting?.()
    expect(attempt).toBeInstanceOf(Promise)
    // All who wait, wait for one attempt.
    expect(client.connecting?.()).toBe(attempt)
    expect([...listeners.keys()]).toEqual(['ready', 'close', 'reconnecting', 'end'])
    const onEnd = vi.fn()
    const ended = attempt?.then(onEnd)
    await Promise.resolve()
    expect(onEnd).not.toHaveBeenCalled()
    listeners.get(event)?.()
    await ended
    // It still says that it is connecting, and the first attempt is over.
    expect(client.connecting?.()).toBeUndefined()
  }
})

test('a cluster of @redis/client is awaited until it has connected', () => {
  const { listeners, once } = createEvents()
  expect(adaptNode({ nodeByAddress: 1, isOpen: true, isReady: false, once }).client.connecting?.()).toBeDefined()
  expect([...listeners.keys()]).toEqual(['connect'])
})

test.each<[string, (own: object) => { client: RedisClient }, object]>([
  ['ready', adaptIo, { status: 'ready' }],
  ['lazy', adaptIo, { status: 'wait' }],
  ['of no status', adaptIo, {}],
  ['ready', adaptNode, { isOpen: true, isReady: true }],
  ['closed', adaptNode, { isOpen: false, isReady: false }],
  ['a pool', adaptNode, { isOpen: true }],
  ['of no state', adaptNode, { isReady: false }],
])('a client that is %s is not awaited, nor later', (_name, adapt, state) => {
  const { listeners, once } = createEvents()
  const own: Record<string, unknown> = { ...state, once }
  const { client } = adapt(own)
  expect([client.connecting?.(), client.connecting?.(), listeners.size]).toEqual([undefined, undefined, 0])
})

test('a client that was ready once is not awaited when it connects again, and one without events never', () => {
  const { methods } = createClient([])
  const redis = { ...methods, ...createEvents(), status: 'ready' }
  const client = adaptIoRedis(redis as unknown as IoRedis)
  expect(client.connecting?.()).toBeUndefined()
  redis.status = 'connecting'
  expect(client.connecting?.()).toBeUndefined()
  expect(adaptIo({ status: 'connecting' }).client.connecting?.()).toBeUndefined()
})

const named = (name: string, message: string) => Object.assign(new Error(message), { name })

test('adaptIoRedis() knows what a server says by the name of the error', () => {
  const { client } = adaptIo()
  expect(client.serverWords(named('ReplyError', 'NOSCRIPT No matching script'))).toBe('NOSCRIPT No matching script')
  expect(client.serverWords(new Error('NOSCRIPT No matching script'))).toBeUndefined()
  expect(client.serverWords({ name: 'ReplyError', message: 'NOSCRIPT' })).toBeUndefined()
  expect(client.serverWords(undefined)).toBeUndefined()
})

const noSentinel = { getSentinelNode() {} }

test.each([
  ['a server', {}],
  ['sentinels', noSentinel],
])('adaptNodeRedis() knows what a server says by its code: %s', (_name, own) => {
  const { client } = adaptNode(own)
  for (const words of ['NOSCRIPT No matching script', 'ERR wrong', 'OK it is']) {
    expect(client.serverWords(new Error(words))).toBe(words)
  }
  for (const words of ['The client is closed', 'Socket closed', 'A b', 'see ERR wrong', 'ERR', 'ERRwrong', 'ERR1 x']) {
    expect(client.serverWords(new Error(words))).toBeUndefined()
  }
  for (const error of [{ message: 'ERR wrong' }, 'ERR wrong', undefined]) {
    expect(client.serverWords(error)).toBeUndefined()
  }
})

test('a client of one server that meets a cluster is told which client to use', () => {
  const moved = 'MOVED 3999 127.0.0.1:6381'
  const advice = `${moved} (a node of a cluster: use new Cluster() of ioredis, or createCluster() of @redis/client)`
  expect(adaptIo().client.serverWords(named('ReplyError', moved))).toBe(advice)
  expect(adaptNode().client.serverWords(new Error(moved))).toBe(advice)
  expect(adaptIo().client.serverWords(named('ReplyError', 'ERR MOVED here'))).toBe('ERR MOVED here')
})

/** A client of sentinels, which calls again what fails, as the real one does after a failover. */
function adaptSentinel(failures: readonly Error[]) {
  const { sent, methods } = createClient(['evalSha', 'eval', 'zRem', 'del', 'ping'])
  const left = [...failures]
  const master = { ...methods }
  master.ping = async () => {
    sent.push(['ping'])
    const failure = left.shift()
    if (failure) throw failure
    return 'PONG'
  }
  const isReadonly: boolean[] = []
  const client = adaptNodeRedis({
    ...noSentinel,
    async _execute(readonly: boolean, send: (master: unknown) => Promise<unknown>) {
      isReadonly.push(readonly)
      return send(master).catch(() => send(master))
    },
  } as unknown as NodeRedis)
  return { sent, client, isReadonly }
}

test('a client of sentinels sends to the master, as a client of one server does', async () => {
  const { sent, client, isReadonly } = adaptSentinel([])
  expect(await callAll(client)).toEqual([...ANSWERS_OF_NODE_REDIS.slice(0, -1), 'PONG'])
  expect(sent).toEqual(OF_NODE_REDIS)
  expect(isReadonly).toEqual([false, false, false, false, false])
  expect([client.isCluster, client.connecting, client.findNode]).toEqual([false, undefined, undefined])
})

test('a client of sentinels sends a call once, but for what a replica has not written', async () => {
  const lost = adaptSentinel([new Error('Socket closed unexpectedly')])
  await expect(lost.client.ping()).rejects.toThrow('Socket closed unexpectedly')
  expect(lost.sent).toHaveLength(1)
  const replica = adaptSentinel([new Error("READONLY You can't write against a read only replica.")])
  expect(await replica.client.ping()).toBe('PONG')
  expect(replica.sent).toHaveLength(2)
  const other = adaptSentinel([new Error('LOADING while READONLY')])
  await expect(other.client.ping()).rejects.toThrow('LOADING')
  const text = adaptSentinel(['READONLY' as unknown as Error])
  await expect(text.client.ping()).rejects.toBe('READONLY')
  expect([other.sent.length, text.sent.length]).toEqual([1, 1])
})
