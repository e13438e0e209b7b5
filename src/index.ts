/**
 * The library: limits inside your own program.
 * @module sluice
 */

export type { OnStoreError } from './core/model/policy.ts'
export { StoreError } from './core/model/store.ts'
export type { LimitStatus } from './core/model/verdict.ts'
export { OptionError, type OptionErrorCode } from './core/options/option-error.ts'
export type { AlgorithmOptions as Limits } from './core/options/policy-options.ts'
export type { Log } from './core/runtime/log.ts'
export { type RedisClient, UPSTASH_OPTIONS } from './core/store/redis/client.ts'
export type { Identities, Identity } from './library/charge-builder.ts'
export type { LimiterDecision as Decision, ObservedDecision, PartialDecision, Slot } from './library/decision.ts'
export {
  createLimiter,
  type Limiter,
  type LimiterOptions,
  type TakeOptions,
  type WaitOptions,
} from './library/limiter.ts'
export {
  concurrency,
  fixedWindow,
  type PolicyOptions,
  quota,
  slidingWindow,
  sortedSet,
  tokenBucket,
} from './library/policies.ts'
export { SlidingWindowCounter, type SlidingWindowCounterOptions } from './library/sliding-window-counter.ts'
export {
  type AnyRedis,
  type LimiterStore,
  type MemoryStoreOptions,
  memoryStore,
  type RedisStoreOptions,
  redisStore,
} from './library/stores.ts'
