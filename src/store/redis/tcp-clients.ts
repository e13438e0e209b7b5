import type { RedisClient } from './client.ts'

interface ConnectionEvents {
  once?(event: string, listener: () => void): unknown
}

/** Events that end the first attempt to connect. */
const ENDS = ['ready', 'close', 'reconnecting', 'end']

/** A client without a queue refuses what is sent while it connects. */
function awaitFirstConnection(client: ConnectionEvents, isConnecting: () => boolean): () => Promise<void> | undefined {
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
      for (const event of ENDS) client.once?.(event, end)
    })
    return attempt
  }
}

export interface IoRedis extends ConnectionEvents {
  readonly status?: string
  evalsha(sha1: string, keyCount: number, ...keysAndArguments: (string | number)[]): Promise<unknown>
  eval(script: string, keyCount: number, ...keysAndArguments: (string | number)[]): Promise<unknown>
  zrem(key: string, ...members: string[]): Promise<unknown>
  del(...keys: string[]): Promise<unknown>
  ping(): Promise<unknown>
  defineCommand: unknown
}

export function ioRedisClient(redis: IoRedis): RedisClient {
  return {
    evalsha: (sha1, keys, args) => redis.evalsha(sha1, keys.length, ...keys, ...args),
    eval: (script, keys, args) => redis.eval(script, keys.length, ...keys, ...args),
    zrem: (key, members) => redis.zrem(key, ...members),
    del: (keys) => redis.del(...keys),
    ping: () => redis.ping(),
    connecting: awaitFirstConnection(redis, () => redis.status === 'connecting' || redis.status === 'connect'),
    serverWords: (error) => (error instanceof Error && error.name === 'ReplyError' ? error.message : undefined),
  }
}

/** A client of `@redis/client`, which `redis` includes. */
export interface NodeRedis extends ConnectionEvents {
  readonly isOpen?: boolean
  /** Missing in a pool. */
  readonly isReady?: boolean
  evalSha(sha1: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
  zRem(key: string, members: string[]): Promise<unknown>
  del(keys: string[]): Promise<unknown>
  ping(): Promise<unknown>
}

export function nodeRedisClient(redis: NodeRedis): RedisClient {
  return {
    evalsha: (sha1, keys, args) => redis.evalSha(sha1, { keys, arguments: args.map(String) }),
    eval: (script, keys, args) => redis.eval(script, { keys, arguments: args.map(String) }),
    zrem: (key, members) => redis.zRem(key, [...members]),
    del: (keys) => redis.del([...keys]),
    ping: () => redis.ping(),
    connecting: awaitFirstConnection(redis, () => redis.isOpen === true && redis.isReady === false),
    // Its errors have no names. A server's begin with a code, such as NOSCRIPT; those of the client with "The" or the like.
    serverWords: (error) => (error instanceof Error && /^[A-Z]{2,} /.test(error.message) ? error.message : undefined),
  }
}
