/**
 * Middleware for whatever takes a `Request` and gives a `Response`: Next.js, SvelteKit, Astro, Nitro, Bun, Deno, edges.
 * @module sluice/fetch
 */

export type { LimitStatus } from './core/model/verdict.ts'
export { OptionError } from './core/options/option-error.ts'
export type { ObservedRequest, RateLimit } from './http/request/rate-limit.ts'
export type { Identities, Identity } from './library/charge-builder.ts'
export type { LimiterDecision as Decision } from './library/decision.ts'
export type { CallerCounts } from './middleware/counts.ts'
export { type FetchHandler, type LimitOptions, limit, readRateLimit } from './middleware/fetch.ts'
