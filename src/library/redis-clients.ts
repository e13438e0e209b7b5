import { OptionError } from '../config/option-error.ts'
import type { RedisClient } from '../store/redis/client.ts'
import { type IoRedis, ioRedisClient } from '../store/redis/clients/ioredis.ts'
import { type NodeRedis, nodeRedisClient } from '../store/redis/clients/node-redis.ts'
import { type UpstashRedis, upstashClient } from '../store/redis/clients/upstash.ts'

/** What `redisStore` takes: a client of `@upstash/redis`, `@redis/client` (or `redis`) or `ioredis`, or an adapter. */
export type AnyRedis = UpstashRedis | NodeRedis | IoRedis | RedisClient

/**
 * Tells the clients apart: each has a function that the others lack.
 * @throws {OptionError} if it is none of them, or would send a call twice
 */
export function adaptRedis(client: AnyRedis): RedisClient {
  if (typeof client === 'object' && client !== null) {
    if ('serverWords' in client) return client
    refuseClusters(client)
    if ('evalSha' in client) return nodeRedisClient(client)
    if ('defineCommand' in client) return ioRedisClient(safeIoRedis(client))
    if ('createScript' in client) return upstashClient(safeUpstash(client))
  }
  throw new OptionError('redisStore', 'a client of @upstash/redis, @redis/client or ioredis', typeof client)
}

/**
 * Clients of a cluster or of sentinels send a call again by themselves when a node is lost, which charges twice.
 * @throws {OptionError} if it is one of them
 */
function refuseClusters(client: object): void {
  const isCluster = ('isCluster' in client && client.isCluster === true) || 'nodeByAddress' in client
  if (!isCluster && !('getSentinelNode' in client)) return
  const kind = isCluster ? 'a client of a cluster' : 'a client of sentinels'
  throw new OptionError('redisStore', 'a client of one Redis server (clusters are not supported)', kind)
}

/** @throws {OptionError} if it may send a call twice, or several calls as one, as far as can be seen from outside */
function safeUpstash(redis: UpstashRedis): UpstashRedis {
  const { enableAutoPipelining, client } = redis as {
    readonly enableAutoPipelining?: boolean
    readonly client?: {
      readonly retry?: { readonly attempts?: number }
      readonly options?: { readonly signal?: unknown }
    }
  }
  if (enableAutoPipelining) {
    // Callers would wait for a promise that others share, which on Workers never ends.
    throw new OptionError('redisStore', 'an @upstash/redis client made with enableAutoPipelining: false', true)
  }
  const attempts = client?.retry?.attempts ?? 0
  if (attempts > 0) {
    throw new OptionError('redisStore', 'an @upstash/redis client made with retry: { retries: 0 }', attempts)
  }
  if (typeof client?.options?.signal === 'object') {
    // Once it is aborted, the client answers with its reason as if Redis had.
    throw new OptionError('redisStore', 'an @upstash/redis client without a signal, or with a function', 'a signal')
  }
  return redis
}

/** @throws {OptionError} if it resends calls that had no answer when the connection broke */
function safeIoRedis(redis: IoRedis): IoRedis {
  const { autoResendUnfulfilledCommands } = (redis as { options?: { autoResendUnfulfilledCommands?: unknown } })
    .options ?? { autoResendUnfulfilledCommands: undefined }
  if (autoResendUnfulfilledCommands !== true) return redis
  const expected = 'an ioredis client with autoResendUnfulfilledCommands: false (client.duplicate({ … }) makes one)'
  throw new OptionError('redisStore', expected, true)
}
