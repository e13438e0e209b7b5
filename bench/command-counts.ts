import { createClient } from '@redis/client'

// A type, not an interface: its medians are taken.
export type CommandCounts = {
  /** What Upstash bills: every command, those inside scripts one by one. */
  readonly billed: number
  /** Microseconds that Redis spent, by its own count. */
  readonly serverUs: number
}

/** Commands of the bench itself. */
const OWN = new Set(['config|resetstat', 'info', 'client|setinfo', 'hello'])

/** Connects the bench's own client, whose commands have no deadline. */
export async function connectRedis(port: number) {
  return createClient({ socket: { host: '127.0.0.1', port }, commandOptions: { timeout: 0 } }).connect()
}

export type RedisClient = Awaited<ReturnType<typeof connectRedis>>

/** Starts to count again. */
export async function resetCounts(redis: RedisClient): Promise<void> {
  await redis.configResetStat()
}

/** What Redis has done since the last reset. */
export async function readCounts(redis: RedisClient): Promise<CommandCounts> {
  const stats = await redis.info('commandstats')
  const commands = [...stats.matchAll(/^cmdstat_(\S+?):calls=(\d+),usec=(\d+)/gm)]
    .map(([, name = '', calls, us]) => ({ name, calls: Number(calls), us: Number(us) }))
    .filter(({ name }) => !OWN.has(name))
  // The time of a script includes that of its commands.
  const isScripted = commands.some(({ name }) => name.startsWith('eval'))
  const outer = commands.filter(({ name }) => !isScripted || name.startsWith('eval'))
  return {
    billed: commands.reduce((sum, { calls }) => sum + calls, 0),
    serverUs: outer.reduce((sum, { us }) => sum + us, 0),
  }
}
