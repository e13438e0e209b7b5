import { ConfigError } from '../config/config-error.ts'
import type { Log } from '../decide/log.ts'
import type { AlgorithmName } from '../limit/algorithm-table.ts'
import type { Policy } from '../request/policy/policy.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import type { Store } from '../store/store.ts'

/** Where a middleware keeps its counts, as `memoryStore` and `redisStore` make it. */
export interface MiddlewareStore {
  /** Deadline of a decision, in milliseconds. */
  readonly timeoutMs: number
  /** The store, for rules of these algorithms. */
  open(algorithms: Iterable<AlgorithmName>): Store
}

interface Use {
  readonly policies: readonly Policy[]
  readonly prefix: string
  readonly log: Log
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
}

/** What limits the policies of each store have, by prefix and name. */
const LIMITS = new WeakMap<MiddlewareStore, Map<string, string>>()

let isTold = false

/** @throws {ConfigError} if two middlewares would count different limits under one name */
export function openStore(store: MiddlewareStore | undefined, { policies, prefix, log, now }: Use) {
  if (!store) {
    if (!isTold) log('warn', { event: 'in_memory_store', message: 'no store is given: limits hold per process only' })
    isTold = true
    return { store: new MemoryStore(now), timeoutMs: Number.POSITIVE_INFINITY }
  }
  const known = LIMITS.get(store) ?? new Map<string, string>()
  LIMITS.set(store, known)
  for (const policy of policies) {
    const { name, algorithm, tiers, burst } = policy
    const limits = JSON.stringify([algorithm, tiers, burst])
    const before = known.get(`${prefix}:${name}`)
    if (before !== undefined && before !== limits) {
      throw new ConfigError('name', 'a name of its own for each set of limits in one store', name)
    }
    known.set(`${prefix}:${name}`, limits)
  }
  return { store: store.open(new Set(policies.map(({ algorithm }) => algorithm))), timeoutMs: store.timeoutMs }
}
