import type { DecisionRequest } from '../../src/core/model/charge.ts'
import type { Limit } from '../../src/core/model/limits.ts'
import { LUA } from '../../src/core/store/redis/lua.ts'
import { EntriesToRead } from '../../src/core/store/redis/redis-store.ts'
import { joinScript, listScriptArguments, readDecision } from '../../src/core/store/redis/script.ts'
import { seededRandom } from '../../tools/seeded-random.ts'
import { readCounts, resetCounts } from '../command-counts.ts'
import type { Counted } from './callgrind.ts'
import { type CountedRedis, startCountedRedis } from './counted-redis.ts'

const DECISIONS = 200
/** Not counted: until a short stream is as its traffic leaves it, and it is known what to read of it. */
const WARM_UPS = 60
const HOUR_MS = 3_600_000
const START_MS = 1_700_000_000_000
const KEY = 'sluice:default:w:{hot}'
/** Asks Redis's clock, as the real one does, but goes by the traffic's. */
const CLOCK = "redis.call('TIME') return tonumber(ARGV[#ARGV])"

interface Traffic {
  readonly name: string
  /** Its pace, divided by that of the longest limit. */
  readonly share: number
  /** So many requests come 10 ms apart, and then none for a while. */
  readonly burst: number
}

const TRAFFICS: readonly Traffic[] = [
  { name: 'steady at 0.01', share: 0.01, burst: 1 },
  { name: 'steady at 0.5', share: 0.5, burst: 1 },
  { name: 'steady at 0.9', share: 0.9, burst: 1 },
  { name: 'steady at 1', share: 1, burst: 1 },
  { name: 'bursts of 20 at 0.5', share: 0.5, burst: 20 },
  { name: 'flood at 10', share: 10, burst: 1 },
]

/** What such admissions until START_MS have left, at random moments. */
const FILL = `
local start, gap, burst, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
math.randomseed(7)
local at, dates = start, {}
while at > start - ${HOUR_MS * 1.1} and #dates < limit do
  dates[#dates + 1] = at
  at = at - (#dates % burst == 0 and 1 - math.log(1 - math.random()) * gap * burst or 10)
end
for i = 1, #dates do
  redis.call('XADD', KEYS[1], ('%d-%d'):format(dates[#dates + 1 - i], i), '${HOUR_MS}', '1')
end`

// A type, not an interface: it is a row of a table.
export type TrafficInstructions = {
  readonly limits: number
  /** An hour. */
  readonly limit: number
  readonly traffic: string
  readonly granted: number
  readonly instructions: number
  readonly billed: number
  /** Of memory, for each entry of the stream. */
  readonly bytes: number
}

/** What Redis spends on decisions of a sliding window, and Upstash bills, while requests come and leave the window. */
export async function countByTraffic(
  underCallgrind: (executable: string) => Promise<Counted>,
): Promise<TrafficInstructions[]> {
  await using counted = await startCountedRedis(underCallgrind)
  const rows: TrafficInstructions[] = []
  for (const limits of [1, 3]) {
    for (const limit of [5, 10, 60, 1_000, 100_000]) {
      for (const traffic of TRAFFICS) rows.push(await countTraffic(counted, limitsOf(limit).slice(-limits), traffic))
    }
  }
  return rows
}

async function countTraffic(
  { redis, count }: CountedRedis,
  limits: readonly Limit[],
  { name, share, burst }: Traffic,
): Promise<TrafficInstructions> {
  const limit = limits.at(-1)?.limit ?? 0
  const gapMs = HOUR_MS / limit / share
  const filled = [START_MS, Math.max(gapMs, HOUR_MS / limit), burst, limit].map(String)
  await redis.flushAll()
  await redis.eval(FILL, { keys: [KEY], arguments: filled })
  const sha1 = await redis.scriptLoad(joinScript('decide', ['sliding-window'], LUA, CLOCK))
  const charge = { key: KEY, algorithm: 'sliding-window', limits, cost: 1, mode: 'enforce', reserved: 0 } as const
  const request: DecisionRequest = { action: 'take', permits: 1, charges: [charge] }
  const entriesToRead = new EntriesToRead()
  const random = seededRandom(7)
  let nowMs = START_MS
  let asked = 0
  let granted = 0
  const decide = async () => {
    nowMs += ++asked % burst === 0 ? 1 - Math.log(1 - random()) * gapMs * burst : 10
    const args = [...listScriptArguments(request, entriesToRead.find), Math.floor(nowMs * 1_000)].map(String)
    const decision = readDecision(await redis.evalSha(sha1, { keys: [KEY], arguments: args }), request)
    entriesToRead.update(request, decision)
    granted += decision.granted
  }
  for (let i = 0; i < WARM_UPS; i++) await decide()
  granted = 0
  await resetCounts(redis)
  const instructions = await count(DECISIONS, decide)
  const { billed } = await readCounts(redis)
  const bytes = Number(await redis.memoryUsage(KEY, { SAMPLES: 0 })) / (await redis.xLen(KEY))
  return {
    limits: limits.length,
    limit,
    traffic: name,
    granted: granted / DECISIONS,
    instructions: Math.round(instructions),
    billed: Math.round((billed / DECISIONS) * 100) / 100,
    bytes: Math.round(bytes),
  }
}

/** For an hour, with a tenth of it a minute and a hundredth a second. */
function limitsOf(limit: number): Limit[] {
  return [
    { limit: Math.ceil(limit / 100), windowMs: 1_000 },
    { limit: Math.ceil(limit / 10), windowMs: 60_000 },
    { limit, windowMs: HOUR_MS },
  ]
}
