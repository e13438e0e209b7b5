/**
 * Limits on the calling side.
 * @module sluice/outbound
 */
export { OutboundError, type OutboundErrorCode } from './outbound/call-scheduler.ts'
export type { Clock } from './outbound/clock.ts'
export type { Notes } from './outbound/known-limits.ts'
export type { OutboundDecision, OutboundLimiter, PerCall, QueueOptions } from './outbound/options.ts'
export {
  type Learned,
  type OutboundCall,
  type OutboundFetch,
  type OutboundOptions,
  outbound,
} from './outbound/outbound.ts'
export { type ThrottleOptions, throttle } from './outbound/throttle.ts'
