/**
 * Middleware for whatever takes a `Request` and gives a `Response`: Next.js, SvelteKit, Astro, Nitro, Bun, Deno, edges.
 * @module sluice/fetch
 */
export { OptionError } from './config/option-error.ts'
export { type FetchHandler, type LimitOptions, limit, readRateLimit } from './middleware/fetch.ts'
export type { RateLimit } from './middleware/middleware.ts'
export type { LimitStatus } from './model/verdict.ts'
