import { awaitFirstConnection, type ConnectionEvents, type RedisClient } from '../client.ts'

/** What is used of `Redis` from `ioredis`. */
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
