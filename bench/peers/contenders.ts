/** The libraries as their documentation uses them, outside of a Worker. */
import { createClient } from '@redis/client'
import { Ratelimit } from '@upstash/ratelimit'
import { Redis } from '@upstash/redis'
import { RateLimiterRedis, RateLimiterUnion } from 'rate-limiter-flexible'
import type { Limit } from '../../src/core/model/limits.ts'
import { createScriptFlags } from '../../tools/script-flags.ts'
import { type Contender, FLEXIBLE, type PeerOptions, type Peers, type TryTake, UPSTASH } from '../peers.ts'
import { consumeFrom } from './consume-from.ts'

export async function connect({ redisPort, restUrl, token }: PeerOptions): Promise<Peers> {
  const upstash = new Redis({ url: restUrl, token })
  const client = createClient({ socket: { host: '127.0.0.1', port: redisPort }, commandOptions: { timeout: 0 } })
  await client.connect()
  const { strip } = createScriptFlags()
  const createSend = (command: string) => (script: string, keys: string[], args: unknown[]) =>
    client.sendCommand(strip([command, script, `${keys.length}`, ...keys, ...args.map(String)]))
  const scripts = { evalsha: createSend('EVALSHA'), eval: createSend('EVAL') }
  const listContenders = (redis: Redis): Contender[] => [
    { name: UPSTASH, make: (limits) => limitByUpstash(redis, limits) },
    { name: FLEXIBLE, make: (limits) => limitByFlexible(client, limits) },
  ]
  // A limiter calls nothing else of its client.
  return {
    contenders: listContenders(upstash),
    overTcp: listContenders(scripts as unknown as Redis),
    close: () => client.close(),
  }
}

/** Its sliding window, which its documentation begins with. */
function limitByUpstash(redis: Redis, limits: readonly Limit[]): TryTake {
  const limiters = limits.map(({ limit, windowMs }) => {
    const limiter = Ratelimit.slidingWindow(limit, `${windowMs} ms`)
    return new Ratelimit({ redis, limiter, prefix: `@upstash/ratelimit:${windowMs}` })
  })
  return async (caller) => {
    for (const limiter of limiters) {
      if (!(await limiter.limit(caller)).success) return false
    }
    return true
  }
}

function limitByFlexible(storeClient: unknown, limits: readonly Limit[]): TryTake {
  const limiters = limits.map(({ limit, windowMs }) => {
    const keyPrefix = `rlflx:${windowMs}`
    return new RateLimiterRedis({
      storeClient,
      useRedisPackage: true,
      points: limit,
      duration: windowMs / 1_000,
      keyPrefix,
    })
  })
  const [only, ...others] = limiters
  const limiter = only && others.length === 0 ? only : new RateLimiterUnion(...limiters)
  return consumeFrom(limiter)
}
