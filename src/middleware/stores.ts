import { OptionError } from '../config/option-error.ts'
import { withRefusalLimit } from '../engine/refusal-limit.ts'
import { type LimiterStore, memoryStore } from '../library/stores.ts'
import type { RequestPolicy } from '../model/policy.ts'
import { isRefusedForLong } from '../request/charge-builder.ts'
import type { Log } from '../runtime/log.ts'

interface StoreContext {
  readonly policies: readonly RequestPolicy[]
  readonly keyPrefix: string
  readonly log: Log
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
}

/** Limits of the policies that count in each store, by keyPrefix and name. */
const LIMITS = new WeakMap<LimiterStore, Map<string, string>>()

let isWarned = false

/** @throws {OptionError} if two middlewares would count different limits under one name */
export function openStore(given: LimiterStore | undefined, { policies, keyPrefix, log, now }: StoreContext) {
  if (!given && !isWarned) {
    isWarned = true
    log('warn', { event: 'in_memory_store', message: 'no store is given: limits hold per process only' })
  }
  const limiterStore = given ?? memoryStore({ now })
  const known = LIMITS.get(limiterStore) ?? new Map<string, string>()
  LIMITS.set(limiterStore, known)
  for (const { name, algorithm, limits, burst } of policies) {
    const text = JSON.stringify([algorithm, limits, burst])
    if ((known.get(`${keyPrefix}:${name}`) ?? text) !== text) {
      throw new OptionError('name', 'a name of its own for each set of limits in one store', name)
    }
    known.set(`${keyPrefix}:${name}`, text)
  }
  const store = limiterStore.open(new Set(policies.map(({ algorithm }) => algorithm)))
  const remembersRefusals = limiterStore.isRemote && !policies.every(isRefusedForLong)
  return { store: remembersRefusals ? withRefusalLimit(now)(store) : store, timeoutMs: limiterStore.timeoutMs }
}
