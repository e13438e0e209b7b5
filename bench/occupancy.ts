/** Server time of one sliding-window decision against the number of entries in its stream, as Redis itself counts it. */
import { createClient } from '@redis/client'
import { decideScript } from '../src/store/script.ts'
import { scriptArguments } from '../src/store/script-call.ts'
import type { DecisionRequest } from '../src/store/store.ts'
import { startRedisServer } from '../tools/redis-server.ts'
import { machine } from './machine.ts'

const OCCUPANCIES = [10, 1_000, 100_000]
const REPETITIONS = 9
const DECISIONS = 500
const HOUR_MS = 3_600_000

const server = await startRedisServer()
const redis = await createClient({
  socket: { host: '127.0.0.1', port: server.port },
  commandOptions: { timeout: 0 },
}).connect()
const sha1 = await redis.scriptLoad(decideScript(new Set(['sliding-window'])))

/** Fills a stream with admissions of the last half hour, as decisions would have. */
async function fill(key: string, entries: number): Promise<void> {
  await redis.del(key)
  const startMs = Date.now() - HOUR_MS / 2
  for (let from = 1; from <= entries; from += 10_000) {
    const batch = Array.from({ length: Math.min(10_000, entries - from + 1) }, (_, i) => {
      const total = from + i
      const ms = startMs + Math.floor((total * HOUR_MS) / 2 / (entries + 1))
      return redis.sendCommand(['XADD', key, `${ms}-${total}`, String(HOUR_MS), '1'])
    })
    await Promise.all(batch)
  }
}

function decision(key: string): DecisionRequest {
  const tiers = [{ limit: 1_000_000, windowMs: HOUR_MS }]
  return {
    mode: 'all',
    permits: 1,
    rules: [{ key, algorithm: 'sliding-window', tiers, cost: 1, enforced: true, reserved: 0 }],
  }
}

/** Mean µs that Redis spent on each of a run of decisions. The stream is filled anew, so that it keeps its size. */
async function measure(entries: number): Promise<number> {
  const key = `occupancy:${entries}`
  const args = scriptArguments(decision(key)).map(String)
  let microseconds = 0
  // At ten entries more than a few decisions would make it another stream.
  const perFill = Math.min(DECISIONS, Math.max(5, entries / 100))
  for (let done = 0; done < DECISIONS; done += perFill) {
    await fill(key, entries)
    await redis.configResetStat()
    // Sent in one go, so that Redis is not measured as it wakes up.
    await Promise.all(Array.from({ length: perFill }, () => redis.evalSha(sha1, { keys: [key], arguments: args })))
    const stats = await redis.info('commandstats')
    microseconds += Number(/cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(stats)?.[1])
  }
  return microseconds / DECISIONS
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number

const results = new Map<number, number[]>(OCCUPANCIES.map((entries) => [entries, []]))
for (let repetition = 0; repetition <= REPETITIONS; repetition++) {
  for (const entries of OCCUPANCIES) {
    const value = await measure(entries)
    // The first round warms Redis up.
    if (repetition > 0) results.get(entries)?.push(value)
  }
}
await redis.close()
await server.stop()

const base = median(results.get(10) ?? [])
console.log(machine())
console.table(
  OCCUPANCIES.map((entries) => {
    const value = median(results.get(entries) ?? [])
    return { entries, 'µs a decision': value.toFixed(1), 'ratio to 10 entries': (value / base).toFixed(2) }
  }),
)
