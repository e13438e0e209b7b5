/** Composes the limiter of a middleware from its options. */
import { createEarlyRefusals } from '../core/engine/stages/early-refusals.ts'
import { type LimitStatus, toLimitStatus, type Verdict } from '../core/model/verdict.ts'
import { composeLimiter } from '../http/request/request-limiter.ts'
import { createSettlement } from '../http/request/settlement.ts'
import { createPathReader, createTargetReader } from '../http/request/target.ts'
import { formatRetryAfter } from '../http/response/problem.ts'
import { memoryStore, refuseSharedNames } from '../library/stores.ts'
import { readOptions, type SharedOptions } from './options.ts'

/** The decision about a request. */
export interface RateLimit {
  /**
   * `admitted`; `limited` by a limit; `deprioritized`: the remaining units are reserved for higher priorities; `shed`: the
   * application is overloaded; `unidentified`: it lacks what a policy counts by; `invalid_cost`: it names an invalid cost;
   * `ambiguous_path`: its path can be read in several ways; `unavailable`: the store gives no answer, and the fallback is
   * `closed`.
   */
  readonly outcome: Verdict['outcome']
  /** Status of the limits of all policies that apply; empty if none applies, or none was evaluated. */
  readonly limits: readonly LimitStatus[]
  /** Milliseconds after which a refused request will be admitted if nothing else is charged. */
  readonly retryAfterMs?: number
  /** The fallback that decided while the store gives no answer. */
  readonly degraded?: Verdict['degraded']
}

export const UNLIMITED: RateLimit = { outcome: 'admitted', limits: [] }

export function toRateLimit(verdict: Verdict): RateLimit {
  const { outcome, degraded } = verdict
  return {
    outcome,
    limits: 'limits' in verdict ? verdict.limits.map(toLimitStatus) : [],
    ...('retryAfterMs' in verdict && { retryAfterMs: verdict.retryAfterMs }),
    ...(degraded !== undefined && { degraded }),
  }
}

/** @throws {OptionError} for a wrong option */
export function composeMiddleware<Args extends unknown[]>(options: SharedOptions<Args>) {
  const settings = readOptions(options)
  const { policies, keyPrefix, literalInPaths, log } = settings
  if (!options.store && !isWarned) {
    isWarned = true
    log('warn', { event: 'in_memory_store', message: 'no store is given: limits hold per process only' })
  }
  const limiterStore = options.store ?? memoryStore({ now: options.now })
  refuseSharedNames(limiterStore, keyPrefix, policies, ({ limits, burst, plans }) => [limits, burst, plans?.limits])
  const store = limiterStore.open(new Set(policies.map(({ algorithm }) => algorithm)))
  const { isRemote, timeoutMs: storeTimeoutMs } = limiterStore
  const repeats = isRemote ? createEarlyRefusals : 'none'
  const { limiter } = composeLimiter({
    ...settings,
    createSettlement,
    store,
    storeTimeoutMs,
    repeats,
    hasBreaker: isRemote,
  })
  return { ...settings, limiter, readTarget: createTargetReader(createPathReader(literalInPaths)) }
}

let isWarned = false

/** Headers of an application's own refusal, which no cache may keep either (RFC 6585 §4). */
export function listRefusalFields(retryAfterMs: number): readonly (readonly [name: string, value: string])[] {
  return Object.entries({ ...formatRetryAfter(retryAfterMs), 'Cache-Control': 'no-store' })
}
