import { awaitFirstConnection, type ConnectionEvents, type RedisClient } from '../client.ts'

/** What is used of a client of `@redis/client`, which `redis` includes. */
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
