/**
 * Middleware for Hono: limits in your own app, on Workers, Node and wherever Hono runs.
 * @module sluice/hono
 */

export type { LimitStatus } from './core/model/verdict.ts'
export { OptionError } from './core/options/option-error.ts'
export type { ObservedRequest, RateLimit } from './http/request/rate-limit.ts'
export type { Identities, Identity } from './library/charge-builder.ts'
export type { LimiterDecision as Decision } from './library/decision.ts'
export type { CallerCounts } from './middleware/counts.ts'
export { type HonoOptions as SluiceOptions, type RateLimitVariables, sluice } from './middleware/hono.ts'
