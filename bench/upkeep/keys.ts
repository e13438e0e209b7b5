import type { RedisClient } from '../../test/support/redis-client.ts'

/** Keys without a time to live, and keys with one, all different. */
export interface Keys {
  readonly bare: number
  readonly kept: number
}

const AT_ONCE = 10_000
const FILL = `
for i = ARGV[1], ARGV[2] do
  redis.call('SET', 'flashMap_' .. string.format('%.0f', i), 'x')
end`
/** From one to ten hours. */
const FILL_KEPT = `
for i = ARGV[1], ARGV[2] do
  redis.call('SET', 'flashMap_kept_' .. string.format('%.0f', i), 'x', 'PX', string.format('%.0f', 3600000 + i * 7919 % 32400000))
end`
const COUNT_BARE = `
local bare = 0
for i = ARGV[1], ARGV[2] do
  if redis.call('PTTL', 'flashMap_' .. string.format('%.0f', i)) == -1 then bare = bare + 1 end
end
return bare`
const EXPIRIES = `
local expiries = {}
for i = ARGV[1], ARGV[2] do
  expiries[#expiries + 1] = redis.call('PEXPIRETIME', 'flashMap_kept_' .. string.format('%.0f', i))
end
return expiries`

/** Fills an empty database, and answers when each key that has a time to live expires. */
export async function fillKeys(redis: RedisClient, { bare, kept }: Keys): Promise<number[]> {
  await redis.flushAll()
  await inParts(redis, FILL, bare)
  await inParts(redis, FILL_KEPT, kept)
  return expiries(redis, { bare, kept })
}

/** In ms since the Unix epoch, of those keys that had a time to live from the start. */
export async function expiries(redis: RedisClient, { kept }: Keys): Promise<number[]> {
  return ((await inParts(redis, EXPIRIES, kept)) as number[][]).flat()
}

/** How many of the keys that had none have none still. */
export async function countBare(redis: RedisClient, { bare }: Keys): Promise<number> {
  return ((await inParts(redis, COUNT_BARE, bare)) as number[]).reduce((sum, part) => sum + part, 0)
}

async function inParts(redis: RedisClient, script: string, amount: number): Promise<unknown[]> {
  const replies: unknown[] = []
  for (let first = 1; first <= amount; first += AT_ONCE) {
    const last = Math.min(first + AT_ONCE - 1, amount)
    replies.push(await redis.eval(script, { keys: [], arguments: [`${first}`, `${last}`] }))
  }
  return replies
}
