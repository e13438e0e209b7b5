/**
 * Middleware for servers of Node that take `(req, res, next)`: Express, Fastify, Connect.
 * @module sluice/node
 */
export { OptionError } from './config/option-error.ts'
export type { RateLimit } from './middleware/middleware.ts'
export { type NodeMiddleware, type NodeOptions as SluiceOptions, type RateLimited, sluice } from './middleware/node.ts'
export type { LimitStatus } from './model/verdict.ts'
