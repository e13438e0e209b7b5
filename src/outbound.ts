/**
 * Limits on the calling side.
 * @module sluice/outbound
 */
export type { Clock } from './outbound/clock.ts'
export type { WaitReason } from './outbound/gate.ts'
export type {
  ObservedCall,
  OutboundCall,
  OutboundDecision,
  OutboundErrorCode,
  OutboundLimiter,
  OutboundOptions,
  OutboundWait,
  OwnLimits,
  PerCall,
  QueueOptions,
  RetryOptions,
  ThrottleOptions,
} from './outbound/options.ts'
export { type OutboundFetch, outbound, throttle } from './outbound/outbound.ts'
export type { ServerLimit } from './outbound/read-limits.ts'
export { OutboundError } from './outbound/scheduler.ts'
