/**
 * Middleware for Hono: limits in your own app, on Workers, Node and wherever Hono runs.
 * @module sluice/hono
 */
export { OptionError } from './config/option-error.ts'
export { type HonoOptions as SluiceOptions, type RateLimitVariables, sluice } from './middleware/hono.ts'
export type { RateLimit } from './middleware/middleware.ts'
export type { LimitStatus } from './model/verdict.ts'
