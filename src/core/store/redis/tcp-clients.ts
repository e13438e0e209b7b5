/** Adapts clients of Redis over TCP. */
import type { RedisClient } from './client.ts'

interface ConnectionEvents {
  on?(event: 'error', listener: (error: Error) => void): unknown
  once?(event: string, listener: () => void): unknown
}

/** Events that end the first attempt to connect. */
const ENDS = ['ready', 'close', 'reconnecting', 'end']

/** A client without a queue refuses what is sent while it connects. */
function awaitFirstConnection(
  client: ConnectionEvents,
  isConnecting: () => boolean,
  ends = ENDS,
): () => Promise<void> | undefined {
  let attempt: Promise<void> | undefined
  let isOver = false
  return () => {
    if (isOver) return undefined
    isOver = client.once === undefined || !isConnecting()
    if (isOver) return undefined
    attempt ??= new Promise((resolve) => {
      const end = () => {
        isOver = true
        resolve()
      }
      for (const event of ends) client.once?.(event, end)
    })
    return attempt
  }
}

/** A client of one server that meets a cluster: it cannot follow the node's redirections. */
function explainRedirection(words: string): string {
  if (!words.startsWith('MOVED ')) return words
  return `${words} (a node of a cluster: use new Cluster() of ioredis, or createCluster() of @redis/client)`
}

/** A client of `ioredis`: `Redis` or `Cluster`. */
export interface IoRedis extends ConnectionEvents {
  readonly isCluster?: boolean
  readonly status?: string
  /** A cluster has these: the nodes of each hash slot, the one that writes first. */
  readonly slots?: readonly (readonly string[] | undefined)[]
  evalsha(sha1: string, keyCount: number, ...keysAndArguments: (string | number)[]): Promise<unknown>
  eval(script: string, keyCount: number, ...keysAndArguments: (string | number)[]): Promise<unknown>
  zrem(key: string, ...members: string[]): Promise<unknown>
  del(...keys: string[]): Promise<unknown>
  ping(): Promise<unknown>
  defineCommand: unknown
}

export function adaptIoRedis(redis: IoRedis): RedisClient {
  return {
    isCluster: redis.isCluster === true,
    findNode: (slot) => redis.slots?.[slot]?.[0],
    evalsha: (sha1, keys, args) => redis.evalsha(sha1, keys.length, ...keys, ...args),
    eval: (script, keys, args) => redis.eval(script, keys.length, ...keys, ...args),
    zrem: (key, members) => redis.zrem(key, ...members),
    del: (keys) => redis.del(...keys),
    ping: () => redis.ping(),
    connecting: awaitFirstConnection(redis, () => redis.status === 'connecting' || redis.status === 'connect'),
    serverWords: (error) =>
      error instanceof Error && error.name === 'ReplyError' ? explainRedirection(error.message) : undefined,
  }
}

/** A client of `@redis/client`, which `redis` includes. */
export interface NodeRedis extends ConnectionEvents {
  /** Only in a client of a cluster. */
  readonly nodeByAddress?: unknown
  readonly slots?: readonly ({ readonly master: { readonly address: string } } | undefined)[]
  readonly isOpen?: boolean
  /** Missing in a pool. */
  readonly isReady?: boolean
  evalSha(sha1: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  zRem(key: string, members: string[]): Promise<unknown>
  del(keys: string[]): Promise<unknown>
  ping(): Promise<unknown>
}

/** A client of sentinels of `@redis/client`. */
export interface NodeSentinel extends NodeRedis {
  getSentinelNode(): unknown
  /** Calls `send` with a client of the master, and again if that fails. */
  _execute(isReadonly: boolean, send: (master: NodeRedis) => Promise<unknown>): Promise<unknown>
}

export function adaptNodeRedis(redis: NodeRedis | NodeSentinel): RedisClient {
  if ('getSentinelNode' in redis) return adaptSentinel(redis)
  const isCluster = redis.nodeByAddress !== undefined
  const isConnecting = () => redis.isOpen === true && redis.isReady === false
  return {
    isCluster,
    findNode: (slot) => redis.slots?.[slot]?.master.address,
    evalsha: (sha1, keys, args) => redis.evalSha(sha1, { keys, arguments: args.map(String) }),
    eval: (script, keys, args) => redis.eval(script, { keys, arguments: args.map(String) }),
    zrem: (key, members) => redis.zRem(key, [...members]),
    del: (keys) => redis.del([...keys]),
    ping: () => redis.ping(),
    connecting: awaitFirstConnection(redis, isConnecting, isCluster ? ['connect'] : ENDS),
    serverWords: readServerWords,
  }
}

/** Errors of `@redis/client` have no names. A server's begin with a code, such as NOSCRIPT; its own with "The" or the like. */
function readServerWords(error: unknown): string | undefined {
  return error instanceof Error && /^[A-Z]{2,} /.test(error.message) ? explainRedirection(error.message) : undefined
}

/** After a failover, a client of sentinels sends a failed call again, which would charge twice if only its answer was lost. */
function adaptSentinel(sentinel: NodeSentinel): RedisClient {
  const sendOnce = async <Reply>(call: (master: RedisClient) => Promise<Reply>): Promise<Reply> => {
    const answer = (await sentinel._execute(false, (master) =>
      call(adaptNodeRedis(master)).then(
        (reply) => ({ reply }),
        (error: unknown) => {
          // A replica has written nothing, and the client looks for the master only if it learns of this.
          if (error instanceof Error && error.message.startsWith('READONLY')) throw error
          return { error }
        },
      ),
    )) as { readonly reply: Reply } | { readonly error: unknown }
    if ('error' in answer) throw answer.error
    return answer.reply
  }
  return {
    isCluster: false,
    evalsha: (...call) => sendOnce((master) => master.evalsha(...call)),
    eval: (...call) => sendOnce((master) => master.eval(...call)),
    zrem: (...call) => sendOnce((master) => master.zrem(...call)),
    del: (...call) => sendOnce((master) => master.del(...call)),
    ping: () => sendOnce((master) => master.ping()),
    serverWords: readServerWords,
  }
}
