/** Bytes that one caller takes in Redis, by MEMORY USAGE, after so many admissions of cost 1. */
import { createClient } from '@redis/client'
import type { AlgorithmName } from '../src/algorithms/algorithm.ts'
import { decideScript } from '../src/store/script.ts'
import { scriptArguments } from '../src/store/script-call.ts'
import type { Rule } from '../src/store/store.ts'
import { startRedisServer } from '../tools/redis-server.ts'
import { machine } from './machine.ts'

const ADMISSIONS = [1, 100, 10_000]
const ALGORITHMS: readonly AlgorithmName[] = [
  'sliding-window',
  'sorted-set',
  'token-bucket',
  'fixed-window',
  'quota',
  'concurrency',
]
const HOUR_MS = 3_600_000

const server = await startRedisServer()
const redis = await createClient({
  socket: { host: '127.0.0.1', port: server.port },
  commandOptions: { timeout: 0 },
}).connect()
const sha1 = await redis.scriptLoad(decideScript(new Set(ALGORITHMS)))

/** A length that keys of the field have: prefix, policy, letter and 22 characters of identity. */
function ruleOf(algorithm: AlgorithmName, slot: number): Rule {
  const key = `sluice:default:${algorithm[0]}:{${algorithm.padEnd(22, '-').slice(0, 22)}}`
  const rule = {
    key,
    algorithm,
    tiers: [{ limit: 1_000_000, windowMs: HOUR_MS }],
    cost: 1,
    enforced: true,
    reserved: 0,
  }
  return algorithm === 'concurrency' ? { ...rule, slot } : rule
}

async function admit(algorithm: AlgorithmName, slot: number): Promise<void> {
  const rule = ruleOf(algorithm, slot)
  const args = scriptArguments({ mode: 'all', permits: 1, rules: [rule] }).map(String)
  await redis.evalSha(sha1, { keys: [rule.key], arguments: args })
}

const table: Record<string, Record<string, number | null>> = {}
for (const algorithm of ALGORITHMS) {
  const row: Record<string, number | null> = {}
  let done = 0
  for (const admissions of ADMISSIONS) {
    for (; done < admissions; done++) await admit(algorithm, 2 ** 52 + done)
    row[`bytes after ${admissions}`] = await redis.memoryUsage(ruleOf(algorithm, 0).key, { SAMPLES: 0 })
  }
  table[algorithm] = row
}
await redis.close()
await server.stop()
console.log(machine())
console.table(table)
