import { createClient } from '@redis/client'

export type RedisClient = Awaited<ReturnType<typeof connectRedis>>

/** Connects to a Redis on 127.0.0.1. Commands have no deadline: a busy machine may take longer than the default. */
export function connectRedis(port: number, database = 0) {
  return createClient({ socket: { host: '127.0.0.1', port }, database, commandOptions: { timeout: 0 } }).connect()
}

/** What Redis has counted of one command since the last reset. */
export interface CommandStats {
  readonly name: string
  readonly calls: number
  /** Microseconds that Redis spent. The time of a script includes that of its commands. */
  readonly us: number
}

/** Reads what Redis has counted, the commands of scripts one by one, as Upstash bills them. */
export async function readCommandStats(redis: RedisClient): Promise<readonly CommandStats[]> {
  const stats = await redis.info('commandstats')
  return [...stats.matchAll(/^cmdstat_(\S+?):calls=(\d+),usec=(\d+)/gm)].map(([, name = '', calls, us]) => {
    return { name, calls: Number(calls), us: Number(us) }
  })
}
