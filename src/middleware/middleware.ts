/** Composes the limiter of a middleware from its options. */
import { createEarlyRefusals } from '../core/engine/stages/early-refusals.ts'
import { type Admitted, type LimitStatus, toLimitStatus, type Verdict } from '../core/model/verdict.ts'
import { sleep } from '../core/runtime/sleep.ts'
import type { Exchange } from '../http/request/received-request.ts'
import { composeLimiter } from '../http/request/request-limiter.ts'
import { createSettlement } from '../http/request/settlement.ts'
import { createPathReader, createTargetReader } from '../http/request/target.ts'
import { formatRetryAfter } from '../http/response/problem.ts'
import { memoryStore, noteLimiter, refuseSharedNames } from '../library/stores.ts'
import { type ReportedLimits, readOptions, type SharedOptions } from './options.ts'
import { createWarn } from './warnings.ts'

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

/** A request whose client went while it was delayed. It has been counted, holds nothing, and is not to be handled. */
export const GONE: Admitted = { outcome: 'admitted', limits: [] }

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
  noteLimiter(limiterStore, log)
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
  const { delay } = settings

  /** Decides a request, and delays one that is admitted. @param findSignal finds what aborts when the client goes */
  async function decide(exchange: Exchange, findSignal: () => AbortSignal): Promise<Verdict> {
    const verdict = await limiter.decide(exchange)
    if (!delay || verdict.outcome !== 'admitted') return verdict
    const [first, ...others] = verdict.limits.map(toLimitStatus)
    if (!first) return verdict
    const waiting = wait(verdict, exchange, [first, ...others], findSignal())
    // When the client goes, the platform ends the request. This must go on: slots must be released.
    if (verdict.hold) exchange.context.waitUntil(waiting.catch(() => {}))
    return waiting
  }

  async function wait(admitted: Admitted, { request, context }: Exchange, limits: ReportedLimits, signal: AbortSignal) {
    try {
      await sleep((await delay?.(limits, request.context as Args)) ?? 0, signal)
      return admitted
    } catch (error) {
      if (admitted.hold) context.waitUntil(admitted.hold.release())
      if (signal.aborted) return GONE
      throw error
    }
  }

  return {
    ...settings,
    limiter,
    decide,
    warn: createWarn(log),
    readTarget: createTargetReader(createPathReader(literalInPaths)),
  }
}

let isWarned = false

/** Headers of an application's own refusal, which no cache may keep either (RFC 6585 §4). */
export function listRefusalFields(retryAfterMs: number): readonly (readonly [name: string, value: string])[] {
  return Object.entries({ ...formatRetryAfter(retryAfterMs), 'Cache-Control': 'no-store' })
}
