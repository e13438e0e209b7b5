/**
 * Limits on the calling side.
 * @module sluice/outbound
 */
export { OutboundError, type OutboundErrorCode } from './outbound/call-scheduler.ts'
export type { Clock } from './outbound/clock.ts'
export type {
  Notes,
  OutboundCall,
  OutboundDecision,
  OutboundLimiter,
  OutboundOptions,
  PerCall,
  QueueOptions,
  SharedLimits,
  ThrottleOptions,
} from './outbound/options.ts'
export { type OutboundFetch, outbound, throttle } from './outbound/outbound.ts'
