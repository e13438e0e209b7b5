/**
 * The library: limits inside your own program.
 * @module sluice
 */

export type { AlgorithmOptions as Limits } from './algorithms/read-limits.ts'
export { OptionError, type OptionErrorCode } from './config/option-error.ts'
export type { Identities, Identity } from './library/charge-builder.ts'
export type { LimiterDecision as Decision, PartialDecision, Slot } from './library/decision.ts'
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
export type { OnStoreError } from './model/policy.ts'
export { StoreError } from './model/store.ts'
export type { LimitStatus } from './model/verdict.ts'
export type { Log } from './runtime/log.ts'
export { UPSTASH_OPTIONS } from './store/redis/client.ts'
