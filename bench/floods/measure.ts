/**
 * What a flood of refused requests costs: each goes through the code that decides in production, over a real Redis by the
 * flood's clock, or over the simulated Durable Objects. Counts are exact, and the same in each run.
 */

import { createEarlyRefusals } from '../../src/core/engine/refusals/early-refusals.ts'
import { ALGORITHM_NAMES } from '../../src/core/model/limits.ts'
import type { Store } from '../../src/core/model/store.ts'
import type { SlotHold } from '../../src/core/model/verdict.ts'
import { Deadlines } from '../../src/core/runtime/call-context.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { DurableObjectStore } from '../../src/core/store/durable-object/durable-object-store.ts'
import { openObjects } from '../../src/core/store/durable-object/objects.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { joinScript, listScriptArguments, readDecision } from '../../src/core/store/redis/script.ts'
import { readRules } from '../../src/gateway/rules/document.ts'
import { RuleIndex } from '../../src/gateway/rules/rule-index.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { composeLimiter } from '../../src/http/request/request-limiter.ts'
import { createSettlement } from '../../src/http/request/settlement.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { readNothing } from '../../src/http/response/exchange.ts'
import type { RedisClient } from '../../test/support/redis-client.ts'
import { seededRandom } from '../../tools/seeded-random.ts'
import { readCounts, resetCounts } from '../command-counts.ts'
import { findMetro } from '../scale/map.ts'
import { ObjectSite } from '../scale/object-site.ts'
import { NOT_SIMULATED } from '../scale/redis-site.ts'
import { runInVirtualTime, VirtualTime } from '../scale/virtual-time.ts'
import { FLOOD_CASES, type FloodCase } from './cases.ts'

export interface FloodFigures {
  readonly flood: string
  readonly store: 'Redis' | 'objects'
  /** Calls to Redis or to objects, for each refused request. */
  readonly calls: number
  /** Commands that Upstash bills. */
  readonly commands: number
  readonly rowsWritten: number
}

export interface FloodOptions {
  readonly redis: RedisClient
  readonly perSecond: number
  readonly seconds: number
}

/** After this warm-up, limits are reached and refusals are cached. */
const WARM_UP_SECONDS = 2
const ADDRESS = '203.0.113.7'
const ROUND_TRIP_MS = 2

export async function measureFloods(options: FloodOptions): Promise<FloodFigures[]> {
  const figures: FloodFigures[] = []
  for (const flood of FLOOD_CASES) figures.push(...(await measureFlood(flood, options)))
  return figures
}

/** One flood over each store. */
export async function measureFlood(flood: FloodCase, { redis, ...pace }: FloodOptions): Promise<FloodFigures[]> {
  return [await floodRedis(flood, pace, redis), await floodObjects(flood, pace)]
}

type Pace = Omit<FloodOptions, 'redis'>
type Counted = Pick<FloodFigures, 'calls' | 'commands' | 'rowsWritten'>

interface Site {
  readonly store: Store
  readonly time: VirtualTime
  /** Lets time pass until the next request, and waits for what is under way. */
  pass(ms: number, work: Promise<unknown>): Promise<void>
  count(): Promise<Counted>
}

async function floodRedis(flood: FloodCase, pace: Pace, redis: RedisClient): Promise<FloodFigures> {
  await redis.flushAll()
  const time = new VirtualTime()
  const script = joinScript('decide', ALGORITHM_NAMES, LUA, "redis.call('TIME') return tonumber(ARGV[#ARGV])")
  const sha1 = await redis.scriptLoad(script)
  let calls = 0
  const store: Store = {
    ...NOT_SIMULATED,
    kind: 'redis',
    async decide(request) {
      calls++
      const args = [...listScriptArguments(request), time.nowMs * 1_000].map(String)
      const reply = await redis.evalSha(sha1, { keys: request.charges.map(({ key }) => key), arguments: args })
      return readDecision(reply, request)
    },
  }
  const site: Site = {
    store,
    time,
    async pass(ms, work) {
      await work
      await time.runUntil(time.nowMs + ms)
    },
    async count() {
      const { billed } = await readCounts(redis)
      return { calls, commands: billed, rowsWritten: 0 }
    },
  }
  await resetCounts(redis)
  return { flood: flood.name, store: 'Redis', ...(await run(flood, pace, site)) }
}

async function floodObjects(flood: FloodCase, pace: Pace): Promise<FloodFigures> {
  const time = new VirtualTime()
  const random = seededRandom(1)
  const objects = new ObjectSite({ time, random, countOthers: () => 0, lookMs: 0 })
  const metro = findMetro('London')
  const namespace = objects.namespaceAt({ ...metro, metro }, ROUND_TRIP_MS)
  const site: Site = {
    store: new DurableObjectStore({ objects: openObjects(namespace), timeoutMs: 500 }),
    time,
    async pass(ms, work) {
      let isDone = false
      const done = work.finally(() => {
        isDone = true
      })
      do {
        await time.runUntil(time.nowMs + ms)
        // Answers that needed no call arrive now.
        await new Promise(setImmediate)
      } while (!isDone)
      await done
    },
    async count() {
      const { requests, rowsWritten } = objects.readBill()
      return { calls: requests, commands: 0, rowsWritten }
    },
  }
  const figures = await runInVirtualTime(time, random, () => run(flood, pace, site))
  return { flood: flood.name, store: 'objects', ...figures }
}

async function run(
  flood: FloodCase,
  { perSecond, seconds }: Pace,
  { store, time, pass, count }: Site,
): Promise<Counted> {
  const config = loadConfig({ UPSTREAM_URL: 'https://api.test', STORE: 'memory', ...flood.env })
  const now = () => Math.floor(time.nowMs)
  const { limiter, digestsOfTokens } = composeLimiter({
    ...{
      ...config,
      store,
      repeats: createEarlyRefusals,
      leases: undefined,
      health: undefined,
      createSettlement,
      now,
      log() {},
    },
  })
  const ruleIndex =
    flood.rules &&
    new RuleIndex(readRules(flood.rules(createDigest(config.identitySecret)(['token', 'one']))), {
      ...config,
      digestsOfTokens,
    })
  const readPath = createPathReader()
  const gapMs = 1_000 / perSecond
  /** Slots are held until the end. */
  const holds: SlotHold[] = []
  let sent = 0
  let refused = 0

  async function send(): Promise<void> {
    const headers = { 'CF-Connecting-IP': ADDRESS, ...flood.listFields(sent++) }
    const request = new Request('https://api.test/login', { headers })
    const background: Promise<unknown>[] = []
    const context = {
      deadlines: Deadlines.createForOne(),
      waitUntil: (work: Promise<unknown>) => void background.push(work),
    }
    const orders = await ruleIndex?.match(request, now(), context)
    const verdict =
      orders && 'outcome' in orders
        ? orders
        : await limiter.decide({ request, path: readPath('/login'), context }, { rules: orders })
    if (verdict.outcome !== 'admitted') refused++
    else {
      if (verdict.hold) holds.push(verdict.hold)
      const head = { status: flood.status ?? 200, headers: new Headers() }
      await verdict.settlement?.readHead(head, undefined)?.settle(readNothing)
    }
    await Promise.all(background)
  }

  for (let i = 0; i < WARM_UP_SECONDS * perSecond; i++) await pass(gapMs, send())
  const before = await count()
  refused = 0
  for (let i = 0; i < seconds * perSecond; i++) await pass(gapMs, send())
  const after = await count()
  if (refused < seconds * perSecond) throw new Error(`${flood.name}: not all of the flood was refused`)
  const divide = (name: keyof Counted) => (after[name] - before[name]) / refused
  return { calls: divide('calls'), commands: divide('commands'), rowsWritten: divide('rowsWritten') }
}
