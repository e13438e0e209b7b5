import type { RedisClient } from '../../test/support/redis-client.ts'

export const LONGEST_US = 5_000

export interface ScriptTimes {
  readonly longestUs: number
  /**
   * The same, without the time in which a single command on one key was logged: PTTL takes half a microsecond, and if it
   * took milliseconds, the machine ran something else.
   */
  readonly longestAtWorkUs: number
  /** Scripts that took longer than 5 ms. */
  readonly tooLong: number
}

type Row = [id: number, timeS: number, us: number, args: string[]]

/** Of the scripts in the slow log, in which the commands of a script come just before it. */
export async function readScriptTimes(redis: RedisClient): Promise<ScriptTimes> {
  const log = ((await redis.sendCommand(['SLOWLOG', 'GET', '-1'])) as unknown as Row[]).toSorted(([a], [b]) => a - b)
  const scripts: { us: number; atWorkUs: number }[] = []
  let insideUs = 0
  for (const [, , us, [name = '']] of log) {
    if (/^EVAL/i.test(name)) {
      scripts.push({ us, atWorkUs: us - Math.min(insideUs, us) })
      insideUs = 0
    } else if (/^(PTTL|P?EXPIRE|TIME)$/i.test(name)) {
      insideUs += us
    }
  }
  return {
    longestUs: Math.max(0, ...scripts.map(({ us }) => us)),
    longestAtWorkUs: Math.max(0, ...scripts.map(({ atWorkUs }) => atWorkUs)),
    tooLong: scripts.filter(({ us }) => us > LONGEST_US).length,
  }
}
