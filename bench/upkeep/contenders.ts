import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Redis } from '@upstash/redis'
import type { RedisClient } from '../../test/support/redis-client.ts'
import type { Service } from '../services.ts'
import { runCommand } from './command.ts'
import type { Keys } from './keys.ts'

const run = promisify(execFile)
const MATCH = 'flashMap_*'
const TTL_MS = 86_400_000
export const AWAY_MS = 20

export interface World {
  readonly redis: RedisClient
  readonly port: number
  readonly front: Service
  /** Its answers come `AWAY_MS` later. */
  readonly frontAway: Service
  readonly token: string
  readonly stateFolder: string
  readonly keys: Keys
}

/** One way to give keys without a time to live one. */
export interface Contender {
  readonly name: string
  /** Keys that it goes through at most, where all would take hours. */
  readonly most?: number
  /** Goes through the keys. @returns seconds that count; left out, all that passed do */
  go(world: World, most: number): Promise<number | undefined>
}

/** As published in 2014: SCAN with COUNT 100, one EVAL a batch, one after another. */
const PUBLISHED = `
local set = 0
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, ARGV[1])
    set = set + 1
  end
end
return set`

export const SLUICE = 'sluice expire, redis://'
export const SLUICE_REST = 'sluice expire, REST'

export const CONTENDERS: readonly Contender[] = [
  {
    name: SLUICE,
    go: (world) => expire(world, ['--redis', `redis://127.0.0.1:${world.port}`], {}),
  },
  {
    name: SLUICE_REST,
    go: (world) => expire(world, ['--redis', world.front.url], { UPSTASH_REDIS_REST_TOKEN: world.token }),
  },
  {
    name: `${SLUICE_REST}, ${AWAY_MS} ms away`,
    go: (world) => expire(world, ['--redis', world.frontAway.url], { UPSTASH_REDIS_REST_TOKEN: world.token }),
  },
  {
    name: 'SCAN COUNT 100 and one EVAL a batch, in turn',
    async go({ redis }) {
      for await (const keys of redis.scanIterator({ MATCH, COUNT: 100 })) {
        await redis.eval(PUBLISHED, { keys, arguments: [`${TTL_MS}`] })
      }
      return undefined
    },
  },
  {
    name: `the same over REST, ${AWAY_MS} ms away`,
    most: 10_000,
    async go({ frontAway, token }, most) {
      const redis = new Redis({ url: frontAway.url, token, automaticDeserialization: false, enableTelemetry: false })
      let seen = 0
      for (let cursor = '0'; seen < most; ) {
        const [next, keys] = await redis.scan(cursor, { match: MATCH, count: 100 })
        await redis.eval(PUBLISHED, keys, [TTL_MS])
        cursor = next
        seen += keys.length
      }
      return undefined
    },
  },
  {
    name: 'SCAN, then PTTL and PEXPIRE key by key, in turn',
    most: 20_000,
    async go({ redis }, most) {
      let seen = 0
      for await (const keys of redis.scanIterator({ MATCH, COUNT: 100 })) {
        for (const key of keys) {
          if ((await redis.pTTL(key)) === -1) await redis.pExpire(key, TTL_MS)
        }
        seen += keys.length
        if (seen >= most) break
      }
      return undefined
    },
  },
  {
    name: 'redis-cli --scan | xargs redis-cli EXPIRE … NX',
    most: 1_000,
    go: ({ port }, most) =>
      shell(`${scan(port)} | head -n ${most} | xargs -I{} redis-cli -p ${port} EXPIRE {} 86400 NX`),
  },
  {
    name: 'redis-cli --scan | awk | redis-cli --pipe',
    go: ({ port }) => shell(`${scan(port)} | awk '{ print "EXPIRE " $0 " 86400 NX" }' | redis-cli -p ${port} --pipe`),
  },
]

function scan(port: number): string {
  return `redis-cli -p ${port} --scan --pattern '${MATCH}'`
}

async function shell(line: string): Promise<undefined> {
  await run('/bin/sh', ['-c', `${line} > /dev/null`])
}

/** @returns seconds of the work itself, without the start of the process */
async function expire(
  { stateFolder }: World,
  database: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<number> {
  const { exitCode, stdout, stderr } = await runCommand(
    ['expire', '--match', MATCH, '--ttl', `${TTL_MS}ms`, '--yes', '--json', ...database],
    { stateFolder, env },
  )
  if (exitCode !== 0) throw new Error(`sluice expire ended with ${exitCode}: ${stderr}`)
  return JSON.parse(stdout).seconds
}
