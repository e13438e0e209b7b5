/** The calls that the stores make, over any client. Each is sent once: repeated, it would charge twice. */
export interface RedisClient {
  /** Keys of different hash slots may not be in one call. */
  readonly isCluster?: boolean
  /** @returns the name of the node of a cluster that has this hash slot, if it is known */
  findNode?(this: void, slot: number): string | undefined
  evalsha(sha1: string, keys: string[], args: (string | number)[]): Promise<unknown>
  eval(script: string, keys: string[], args: (string | number)[]): Promise<unknown>
  zrem(key: string, members: readonly string[]): Promise<unknown>
  del(keys: readonly string[]): Promise<unknown>
  ping(): Promise<unknown>
  /** Resolves once the first connection is made or has failed; undefined if none is being made. */
  connecting?(): Promise<void> | undefined
  /** Why there is no connection, as a code such as ECONNREFUSED; undefined if there is one, or nothing is known. */
  readFailure?(): string | undefined
  /** The server's message without the command, if it answered with an error; undefined if no answer was readable. */
  serverWords(error: unknown): string | undefined
}

export interface UpstashRedis extends Pick<RedisClient, 'evalsha' | 'eval' | 'ping'> {
  zrem(key: string, ...members: [string, ...string[]]): Promise<unknown>
  del(...keys: string[]): Promise<unknown>
}

/**
 * Options with which a client of `@upstash/redis` is safe, and quick: `Redis.fromEnv(UPSTASH_OPTIONS)`; on Workers
 * `Redis.fromEnv(env, UPSTASH_OPTIONS)`.
 */
export const UPSTASH_OPTIONS = {
  // A pipeline is a promise shared by several requests, and on Workers that hangs.
  enableAutoPipelining: false,
  // A repeated EVAL charges twice. `false` would still retry once.
  retry: { retries: 0 },
  automaticDeserialization: false,
  // Replies are integers and text: nothing to encode.
  responseEncoding: false,
  enableTelemetry: false,
  readYourWrites: false,
} as const

export function adaptUpstash(redis: UpstashRedis): RedisClient {
  return {
    // The client's commands are bound to it, which spares a hop; those of a wrapper may not be.
    evalsha: redis.evalsha.bind(redis),
    eval: (script, keys, args) => redis.eval(script, keys, args),
    zrem: (key, [first = '', ...others]) => redis.zrem(key, first, ...others),
    del: (keys) => redis.del(...keys),
    ping: () => redis.ping(),
    serverWords: readUpstashWords,
  }
}

export function readUpstashWords(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.name !== 'UpstashError') return undefined
  // The client appends the whole command, identities included.
  return error.message.split(', command was:', 1)[0] ?? ''
}
