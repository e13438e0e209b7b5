/**
 * Limits on the calling side.
 * @module sluice/outbound
 */
export type { Clock } from './outbound/clock.ts'
export type { OutboundDecision, OutboundLimiter } from './outbound/limiter.ts'
export type { Notes } from './outbound/notes.ts'
export type { PerCall, QueueOptions } from './outbound/options.ts'
export {
  type Learned,
  type OutboundCall,
  type OutboundFetch,
  type OutboundOptions,
  outbound,
} from './outbound/outbound.ts'
export { OutboundError, type OutboundErrorCode } from './outbound/outbound-error.ts'
export { type ThrottleOptions, throttle } from './outbound/throttle.ts'
