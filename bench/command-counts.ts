/** Counts the commands that Redis has executed, and their time, by its own statistics. */
import { type RedisClient, readCommandStats } from '../test/support/redis-client.ts'

// A type, not an interface: its medians are taken.
export type CommandCounts = {
  /** What Upstash bills: every command, those inside scripts one by one. */
  readonly billed: number
  /** Microseconds that Redis spent, by its own count. */
  readonly serverUs: number
}

/** Commands of the bench itself. */
const OWN = new Set(['config|resetstat', 'info', 'client|setinfo', 'hello', 'ping'])

/** Starts to count again. */
export async function resetCounts(redis: RedisClient): Promise<void> {
  await redis.configResetStat()
}

/** Reads the counts since the last reset. */
export async function readCounts(redis: RedisClient): Promise<CommandCounts> {
  const commands = (await readCommandStats(redis)).filter(({ name }) => !OWN.has(name))
  const isScripted = commands.some(({ name }) => name.startsWith('eval'))
  const outer = commands.filter(({ name }) => !isScripted || name.startsWith('eval'))
  return {
    billed: commands.reduce((sum, { calls }) => sum + calls, 0),
    serverUs: outer.reduce((sum, { us }) => sum + us, 0),
  }
}
