import { OptionError } from '../config/option-error.ts'
import { RefusalLimiter } from '../engine/refusal-limiter.ts'
import { type LimiterStore, memoryStore } from '../library/stores.ts'
import type { RequestPolicy } from '../model/policy.ts'
import { isRefusedForLong } from '../request/policy/refused-for-long.ts'
import type { Log } from '../runtime/log.ts'

interface Use {
  readonly policies: readonly RequestPolicy[]
  readonly prefix: string
  readonly log: Log
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
}

/** What limits the policies of each store have, by prefix and name. */
const LIMITS = new WeakMap<LimiterStore, Map<string, string>>()

let isTold = false

/** @throws {OptionError} if two middlewares would count different limits under one name */
export function openStore(store: LimiterStore | undefined, { policies, prefix, log, now }: Use) {
  if (!store) {
    if (!isTold) log('warn', { event: 'in_memory_store', message: 'no store is given: limits hold per process only' })
    isTold = true
    return opened(memoryStore({ now }), policies, now)
  }
  const known = LIMITS.get(store) ?? new Map<string, string>()
  LIMITS.set(store, known)
  for (const policy of policies) {
    const { name, algorithm, tiers, burst } = policy
    const limits = JSON.stringify([algorithm, tiers, burst])
    const before = known.get(`${prefix}:${name}`)
    if (before !== undefined && before !== limits) {
      throw new OptionError('name', 'a name of its own for each set of limits in one store', name)
    }
    known.set(`${prefix}:${name}`, limits)
  }
  return opened(store, policies, now)
}

function opened({ open, isRemote, timeoutMs }: LimiterStore, policies: readonly RequestPolicy[], now: () => number) {
  const store = open(new Set(policies.map(({ algorithm }) => algorithm)))
  return { store: isRemote && !policies.every(isRefusedForLong) ? new RefusalLimiter(store, now) : store, timeoutMs }
}
