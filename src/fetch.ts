/**
 * Middleware for whatever takes a `Request` and gives a `Response`: Next.js, SvelteKit, Astro, Nitro, Bun, Deno, edges.
 * @module sluice/fetch
 */

export type { LimitStatus } from './core/model/verdict.ts'
export { OptionError } from './core/options/option-error.ts'
export { type FetchHandler, type LimitOptions, limit, readRateLimit } from './middleware/fetch.ts'
export type { ObservedRequest, RateLimit } from './middleware/rate-limit.ts'
