/** Limiters with their limits, as they are measured in Redis. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ALGORITHMS } from '../../src/core/algorithms/algorithm-table.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import type { Limit } from '../../src/core/model/limits.ts'
import { ALGORITHM_NAMES, type AlgorithmName } from '../../src/core/model/limits.ts'
import { EntriesToRead } from '../../src/core/store/redis/entries-to-read.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { joinScript, listScriptArguments, readDecision } from '../../src/core/store/redis/script.ts'
import type { RedisClient } from '../../test/support/redis-client.ts'
import { type Contender, FLEXIBLE, UPSTASH } from '../peers.ts'

/** @param name of a file in this folder */
const readScript = (name: string) => readFileSync(fileURLToPath(import.meta.resolve(`./${name}.lua`)), 'utf8')

const FILL = readScript('fill')

/** One limiter with its limits, measured in Redis. */
export interface Subject {
  readonly name: string
  /** Gives a new caller the state that this many admissions would have left. */
  fill(caller: string, entries: number): Promise<void>
  /** Decides on one request more, and admits it. */
  decide(caller: string): Promise<unknown>
}

export const SUMMED_STREAM = 'summed stream'
export const SORTED_SET_LOG = 'sorted-set log'
export const PREFIX_SUMS = 'Sluice sliding-window'
/** The subjects whose counts are exact, without the summed stream, which would take minutes. */
export const COUNTED = [PREFIX_SUMS, UPSTASH, FLEXIBLE, SORTED_SET_LOG]

/** Creates all limiters that can hold these limits. */
export async function createSubjects(
  redis: RedisClient,
  limits: readonly Limit[],
  contenders: readonly Contender[],
): Promise<Subject[]> {
  const own = ALGORITHM_NAMES.filter((name) => name !== 'concurrency' || limits.length === 1)
  return [
    await createSummedStream(redis, limits),
    await createSortedSet(redis, limits),
    ...contenders.map((contender) => createPeer(redis, limits, contender)),
    ...(await Promise.all(own.map((name) => createSluice(redis, limits, name)))),
  ]
}

/** A stream and a call for each limit: the published script handles only one window. */
async function createSummedStream(redis: RedisClient, limits: readonly Limit[]): Promise<Subject> {
  const sha1 = await redis.scriptLoad(readScript('summed-stream'))
  const listCalls = (caller: string) => limits.map((limit) => ({ key: `summed:${limit.windowMs}:${caller}`, limit }))
  return {
    name: SUMMED_STREAM,
    async fill(caller, entries) {
      for (const { key } of listCalls(caller))
        await redis.eval(FILL, { keys: [key], arguments: ['stream', `${entries}`, 'n'] })
    },
    decide: (caller) =>
      Promise.all(
        listCalls(caller).map(({ key, limit: { limit, windowMs } }) =>
          redis.evalSha(sha1, { keys: [key], arguments: [`${limit}`, `${windowMs / 1_000}`, '1'] }),
        ),
      ),
  }
}

async function createSortedSet(redis: RedisClient, limits: readonly Limit[]): Promise<Subject> {
  const sha1 = await redis.scriptLoad(readScript('sorted-set-log'))
  const args = limits.flatMap(({ limit, windowMs }) => [`${limit}`, `${windowMs}`])
  return {
    name: SORTED_SET_LOG,
    async fill(caller, entries) {
      await redis.eval(FILL, { keys: [`log:${caller}`], arguments: ['set', `${entries}`, ''] })
    },
    decide: (caller) => redis.evalSha(sha1, { keys: [`log:${caller}`], arguments: args }),
  }
}

export function createPeer(redis: RedisClient, limits: readonly Limit[], { name, make }: Contender): Subject {
  const limit = make(limits)
  return {
    name,
    async fill(caller, entries) {
      await limit(caller)
      // Their state is of one size: the counters are all that more admissions would change.
      for (const key of await redis.keys(`*${caller}*`)) {
        if ((await redis.type(key)) === 'string') await redis.incrBy(key, entries - 1)
      }
    },
    async decide(caller) {
      if (!(await limit(caller))) throw new Error(`${name} refused what it should admit`)
    },
  }
}

async function createSluice(redis: RedisClient, limits: readonly Limit[], algorithm: AlgorithmName): Promise<Subject> {
  const sha1 = await redis.scriptLoad(joinScript('decide', [algorithm], LUA))
  const entriesToRead = new EntriesToRead()
  let slot = 2 ** 52
  // A bucket has one rate: several rates are several policies, still in one call.
  const groups = algorithm === 'token-bucket' ? limits.map((limit) => [limit]) : [limits]
  const createCharges = (caller: string) =>
    groups.map((group, index): StoreCharge => {
      const key = `sluice:default${index || ''}:${ALGORITHMS[algorithm].letter}:{${caller}}`
      const charge = { key, algorithm, limits: group, cost: 1, mode: 'enforce', reserved: 0 } as const
      return algorithm === 'concurrency' ? { ...charge, slot: ++slot } : charge
    })
  const decide = async (caller: string, permits: number) => {
    const charges = createCharges(caller)
    const request = { action: 'take', permits, charges: charges } as const
    const args = listScriptArguments(request, entriesToRead.find).map(String)
    const reply = await redis.evalSha(sha1, { keys: charges.map(({ key }) => key), arguments: args })
    const decision = readDecision(reply, request)
    entriesToRead.update(request, decision)
    if (decision.granted !== permits) throw new Error(`${algorithm} refused what it should admit`)
  }
  return {
    name: `Sluice ${algorithm}`,
    async fill(caller, entries) {
      if (algorithm !== 'sliding-window') return decide(caller, entries)
      // Many admissions at once would be one entry.
      const longest = Math.max(...limits.map(({ windowMs }) => windowMs))
      const [charge] = createCharges(caller)
      await fillStream(redis, charge?.key ?? '', entries, longest)
    },
    decide: (caller) => decide(caller, 1),
  }
}

/** Gives a sliding window the entries of this many admissions. */
export async function fillStream(redis: RedisClient, key: string, entries: number, windowMs: number): Promise<void> {
  await redis.eval(FILL, { keys: [key], arguments: ['stream', `${entries}`, `${windowMs}`] })
}
