/** Composes the limiter of a middleware from its options. */
import { DecisionWatch } from '../core/engine/decision-watch.ts'
import { createEarlyRefusals } from '../core/engine/refusals/early-refusals.ts'
import { type Admitted, toLimitStatus, type Verdict } from '../core/model/verdict.ts'
import { createSleepClock, sleep } from '../core/runtime/sleep.ts'
import { GONE, withWatch } from '../http/request/rate-limit.ts'
import type { Exchange } from '../http/request/received-request.ts'
import { composeLimiter } from '../http/request/request-limiter.ts'
import { createSettlement } from '../http/request/settlement.ts'
import { createPathReader, createTargetReader } from '../http/request/target.ts'
import { formatRetryAfter } from '../http/response/problem.ts'
import { memoryStore, noteLimiter, refuseSharedNames } from '../library/stores.ts'
import { createCounts } from './counts.ts'
import { type ReportedLimits, readMiddlewareOptions, type SharedOptions } from './options.ts'

/** @throws {OptionError} for a wrong option */
export function composeMiddleware<Args extends unknown[]>(options: SharedOptions<Args>) {
  const settings = readMiddlewareOptions(options)
  const { policies, keyPrefix, literalInPaths, log, delay, onDecision } = settings
  if (!options.store && !isWarned) {
    isWarned = true
    log('warn', { event: 'in_memory_store', message: 'no store is given: limits hold per process only' })
  }
  const limiterStore = options.store ?? memoryStore({ now: options.now })
  refuseSharedNames(limiterStore, keyPrefix, policies, ({ limits, burst, plans }) => [limits, burst, plans?.limits])
  noteLimiter(limiterStore, log)
  const store = limiterStore.open(new Set(policies.map(({ algorithm }) => algorithm)), { log })
  const { isRemote, timeoutMs: storeTimeoutMs } = limiterStore
  const repeats = isRemote ? createEarlyRefusals : 'none'
  const watch = onDecision && new DecisionWatch(limiterStore)
  const { limiter, engine } = composeLimiter({
    ...settings,
    createSettlement,
    store,
    storeTimeoutMs,
    repeats,
    hasBreaker: isRemote,
    watch,
  })
  const decider = watch
    ? withWatch(limiter, watch, (decision, { request }) => onDecision?.(decision, ...(request.context as Args)))
    : limiter

  /** Decides a request, and delays one that is admitted. @param findSignal finds what aborts when the client goes */
  async function decide(exchange: Exchange, findSignal: () => AbortSignal): Promise<Verdict> {
    const verdict = await decider.decide(exchange)
    if (!delay || verdict.outcome !== 'admitted') return verdict
    const [first, ...others] = verdict.limits.map(toLimitStatus)
    if (!first) return verdict
    const waiting = wait(verdict, exchange, [first, ...others], findSignal())
    // When the client goes, the platform ends the request. This must go on: slots must be released.
    if (verdict.hold) exchange.context.waitUntil(waiting.catch(() => {}))
    return waiting
  }

  async function wait(admitted: Admitted, { request, context }: Exchange, limits: ReportedLimits, signal: AbortSignal) {
    const clock = createSleepClock(options.now)
    try {
      await sleep((await delay?.(limits, request.context as Args)) ?? 0, signal, clock)
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
    counts: createCounts(settings, engine, log),
    decide,
    readTarget: createTargetReader(createPathReader(literalInPaths)),
  }
}

let isWarned = false

/** Headers of an application's own refusal, which no cache may keep either (RFC 6585 §4). */
export function listRefusalFields(retryAfterMs: number): readonly (readonly [name: string, value: string])[] {
  return Object.entries({ ...formatRetryAfter(retryAfterMs), 'Cache-Control': 'no-store' })
}
