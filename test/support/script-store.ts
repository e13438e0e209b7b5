import { createClient } from '@redis/client'
import { joinScript } from '../../src/store/script.ts'
import { readDecision, scriptArguments } from '../../src/store/script-call.ts'
import type { DecisionRequest, StoreDecision } from '../../src/store/store.ts'

const ALL_ALGORITHMS = new Set(['sliding-window'] as const)

/** A clock that is told the time, as the last argument of the script. */
const ARGUMENT_CLOCK = 'return function() return tonumber(ARGV[#ARGV]) end'

export type RedisClient = Awaited<ReturnType<typeof connectRedis>>

export function connectRedis(port: number) {
  return createClient({ socket: { host: '127.0.0.1', port } }).connect()
}

/** Far above any TTL that a test's windows lead to. */
const MARK_SECONDS = 100_000_000

/** The script itself in a real Redis, at a time of the test's choosing. */
export class ScriptStore {
  readonly #redis: RedisClient
  readonly #script = joinScript(ALL_ALGORITHMS, ARGUMENT_CLOCK)
  readonly #expiresAtMs = new Map<string, number>()
  #latestMs = 0

  constructor(redis: RedisClient) {
    this.#redis = redis
  }

  /**
   * Redis counts TTLs down by its own clock. So that keys expire by the test's, each carries a mark, which tells
   * whether the script has set a TTL, and is deleted when its time has come.
   * @param nowUs microseconds since the Unix epoch
   */
  async decide(request: DecisionRequest, nowUs: number): Promise<StoreDecision> {
    const redis = this.#redis
    this.#latestMs = Math.max(this.#latestMs, Math.floor(nowUs / 1000))
    const keys = request.rules.map(({ key }) => key)
    const args = [...scriptArguments(request), nowUs].map(String)
    const isExpired = (key: string) => this.expiresAtMs(key) <= this.#latestMs
    // Sent in one go, and run in this order.
    const [reply, ...ttls] = await Promise.all([
      Promise.all([
        ...keys.map((key) => (isExpired(key) ? redis.del(key) : redis.expire(key, MARK_SECONDS))),
        redis.eval(this.#script, { keys, arguments: args }),
      ]).then((replies) => replies.at(-1)),
      ...keys.map((key) => redis.ttl(key)),
    ])
    keys.forEach((key, index) => {
      const ttl = ttls[index] ?? Number.NaN
      if (ttl === -1) throw new Error(`${key} has no TTL`)
      if (ttl >= 0 && ttl < MARK_SECONDS / 2) this.#expiresAtMs.set(key, this.#latestMs + ttl * 1000)
    })
    return readDecision(reply, request)
  }

  /** When a key expires by the test's clock; for a key never written, in the past. */
  expiresAtMs(key: string): number {
    return this.#expiresAtMs.get(key) ?? Number.NEGATIVE_INFINITY
  }
}
