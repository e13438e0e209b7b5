/**
 * Middleware for servers of Node that take `(req, res, next)`, such as Express and Connect, for Fastify and for Koa.
 * @module sluice/node
 */

export type { LimitStatus } from './core/model/verdict.ts'
export { OptionError } from './core/options/option-error.ts'
export type { ObservedRequest, RateLimit } from './http/request/rate-limit.ts'
export type { Identities, Identity } from './library/charge-builder.ts'
export type { LimiterDecision as Decision } from './library/decision.ts'
export type { CallerCounts } from './middleware/counts.ts'
export { type NodeMiddleware, sluice } from './middleware/node.ts'
export type { NodeOptions as SluiceOptions, RateLimited } from './middleware/node-host.ts'
