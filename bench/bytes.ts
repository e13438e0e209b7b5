/**
 * What a caller takes in a Redis of its own: the memory in use, divided by callers, after so many admissions each. Some half
 * a minute of one processor.
 *
 *     npm run bench:bytes -- [--callers 2000]
 *
 * Prints the table of docs/growing.md. How Upstash stores them, it does not say.
 */
import { parseArgs } from 'node:util'
import type { StoreCharge } from '../src/core/model/charge.ts'
import { LUA } from '../src/core/store/redis/more-lua.ts'
import { joinScript, listScriptArguments } from '../src/core/store/redis/script.ts'
import { EVERY_ALGORITHM, take } from '../test/support/charges.ts'
import { connectRedis } from '../test/support/redis-client.ts'
import { startRedisServer } from '../tools/redis-server.ts'

const ADMISSIONS = [1, 8, 32]
const LIMITS = [{ limit: 10_000, windowMs: 3_600_000 }]
const DECIDE = joinScript('decide', EVERY_ALGORITHM, LUA, 'return tonumber(ARGV[#ARGV])')
/** Calls that are sent before their answers are awaited. */
const AT_ONCE = 250

const { values } = parseArgs({ options: { callers: { type: 'string', default: '2000' } } })
const callers = Number(values.callers)
const rows = []
for (const algorithm of EVERY_ALGORITHM) rows.push({ algorithm, ...(await measureBytes(algorithm)) })
const setting = ['--stream-node-max-bytes', '512']
rows.push({
  algorithm: 'sliding-window, stream-node-max-bytes 512',
  ...(await measureBytes('sliding-window', setting)),
})
console.table(rows)

async function measureBytes(algorithm: StoreCharge['algorithm'], args: readonly string[] = []) {
  const server = await startRedisServer({ args })
  const redis = await connectRedis(server.port)
  const readUsed = async () => Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1])
  const startMs = Date.now()
  const figures: Record<string, number> = {}
  let slot = 0
  const admit = (caller: number, nowMs: number) => {
    const key = `sluice:api:x:{${String(caller).padStart(22, 'A')}}`
    const charge: StoreCharge = {
      ...{ key, algorithm, limits: LIMITS, cost: 1, mode: 'enforce', reserved: 0 },
      ...(algorithm === 'concurrency' && { slot: ++slot }),
    }
    const list = [...listScriptArguments(take([charge])), nowMs * 1_000].map(String)
    return redis.eval(DECIDE, { keys: [key], arguments: list })
  }
  // The script and its tables stay.
  await admit(callers, startMs)
  const before = await readUsed()
  for (let admissions = 1; admissions <= Math.max(...ADMISSIONS); admissions++) {
    for (let first = 0; first < callers; first += AT_ONCE) {
      const count = Math.min(AT_ONCE, callers - first)
      await Promise.all(Array.from({ length: count }, (_, at) => admit(first + at, startMs + 2 * admissions)))
    }
    if (ADMISSIONS.includes(admissions)) figures[admissions] = Math.round(((await readUsed()) - before) / callers)
  }
  await redis.close()
  await server.stop()
  return figures
}
