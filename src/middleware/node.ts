/** Middleware of the frameworks whose middleware takes `(req, res, next)`. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { type AnyResponse, createAdmit, type NodeOptions, type RateLimited } from './node-host.ts'
import type { AnyIncoming } from './node-request.ts'

declare global {
  // With @types/express, its requests have what the middleware adds.
  namespace Express {
    interface Request extends Partial<RateLimited> {}
  }
}

/** Middleware of Express, Connect and `@fastify/middie`. */
export type NodeMiddleware<Req extends AnyIncoming = IncomingMessage, Res extends AnyResponse = ServerResponse> = (
  request: Req,
  response: Res,
  next: (error?: Error) => void,
) => void

/**
 * Limits requests to a server of Node: Express, Fastify, or any that takes `(req, res, next)`.
 * @example app.use(sluice({ limits: '10/1s, 100/1m', by: 'header:x-api-key' }))
 * @throws {OptionError} for a wrong option, in one line: its name, what was expected and the value
 */
export function sluice<Req extends AnyIncoming = IncomingMessage, Res extends AnyResponse = ServerResponse>(
  options: NodeOptions<Req, Res>,
): NodeMiddleware<Req, Res> {
  const admit = createAdmit(options)
  return function limitRequest(req, res, next) {
    admit(req, res).then(
      (isAdmitted) => {
        if (isAdmitted) next()
      },
      next as (error: unknown) => void,
    )
  }
}
