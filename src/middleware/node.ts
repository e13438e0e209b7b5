/** Middleware of the frameworks whose middleware takes `(req, res, next)`. */

import { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { CheckedBy, CheckedLimits } from '../core/options/checked-text.ts'
import type { CallerCounts } from './counts.ts'
import {
  createAdmit,
  type HeaderMethods,
  type NodeExchange,
  type NodeOptions,
  type RateLimited,
  toFields,
} from './node-host.ts'
import type { AnyIncoming, AnySubject } from './node-request.ts'
import type { AnyResponse } from './node-response.ts'

declare global {
  // With @types/express, its requests have what the middleware adds.
  namespace Express {
    interface Request extends Partial<RateLimited> {}
  }
}

/** Fastify's reply. */
export interface FastifyParts extends Omit<HeaderMethods, 'setHeader'> {
  readonly raw: AnyResponse
  readonly request: { readonly raw: AnyIncoming }
  code(status: number): unknown
  getHeaders(): Record<string, number | string | string[] | undefined>
  header(name: string, value: string): unknown
  hijack(): unknown
  send(body: Uint8Array): unknown
}

/** Koa's context. */
export interface KoaParts {
  readonly req: AnyIncoming
  readonly res: AnyResponse
  respond?: boolean
}

/** Middleware of Express, Connect and `@fastify/middie`; a hook `onRequest` of Fastify; middleware of Koa. */
export interface NodeMiddleware<Req extends AnySubject = IncomingMessage, Res extends AnyResponse = ServerResponse>
  extends CallerCounts {
  (request: object, reply: FastifyParts, done: (error?: Error) => void): void
  (context: KoaParts, next: () => Promise<unknown>): unknown
  (request: Req, response: Res, next: (error?: Error) => unknown): void
}

/**
 * Limits requests to a server of Node: Express, Fastify, Koa, or any that takes `(req, res, next)`.
 * @example app.use(sluice({ limits: '10/1s, 100/1m', by: 'header:x-api-key' }))
 * @throws {OptionError} for a wrong option, in one line: its name, what was expected and the value
 */
export function sluice<
  Req extends AnySubject = IncomingMessage,
  Res extends AnyResponse = ServerResponse,
  LimitsText extends string = string,
  ByText extends string = string,
  PlansText extends string = string,
>(options: NodeOptions<Req, Res> & CheckedLimits<LimitsText, PlansText> & CheckedBy<ByText>): NodeMiddleware<Req, Res> {
  const { admit, counts } = createAdmit(options)

  function limitRequest(_: object, reply: FastifyParts, done: (error?: Error) => void): void
  function limitRequest(context: KoaParts, next: () => Promise<unknown>): unknown
  function limitRequest(request: Req, response: Res, next: (error?: Error) => unknown): void
  function limitRequest(first: object, second: object, next?: (error?: Error) => unknown): unknown {
    if (typeof second === 'function') {
      return admit(openKoa(first as KoaParts & Req)).then((follow) => follow?.(second()))
    }
    const isReply = 'hijack' in second
    const host = isReply
      ? openFastify<Req, Res>(first as Req, second as FastifyParts)
      : openPlain(first as Req & AnyIncoming, second as Res)
    admit(host).then((follow) => follow?.(next?.()), next)
    return undefined
  }
  return Object.assign(limitRequest, counts)
}

function openPlain<Req extends AnyIncoming, Res extends AnyResponse>(req: Req, res: Res): NodeExchange<Req, Res> {
  const answer = (status: number, body: string) => {
    res.statusCode = status
    res.end(body)
  }
  // A guard of NestJS has Fastify's request, and answers in Node's response.
  const { raw } = req as { raw?: AnyIncoming }
  return { subject: req, req: raw?.headers ? raw : req, res, fields: toFields(res), answer, leave() {} }
}

function openFastify<Req extends AnySubject, Res extends AnyResponse>(
  subject: Req,
  reply: FastifyParts,
): NodeExchange<Req, Res> {
  const { raw: res, request } = reply
  return {
    subject,
    req: request.raw,
    res: res as Res,
    fields: toFields({
      getHeader: (name) => reply.getHeader(name),
      hasHeader: (name) => reply.hasHeader(name),
      setHeader: (name, value) => reply.header(name, value),
    }),
    answer(status, body) {
      reply.code(status)
      // To a text, Fastify would add a charset.
      reply.send(Buffer.from(body))
    },
    leave() {
      for (const [name, value] of Object.entries(reply.getHeaders()))
        if (value !== undefined) res.setHeader(name, value)
      reply.hijack()
    },
  }
}

function openKoa<Req extends AnySubject, Res extends AnyResponse>(context: KoaParts & Req): NodeExchange<Req, Res> {
  const { req, res } = context
  return {
    subject: context,
    req,
    res: res as Res,
    fields: toFields(res),
    answer: (status, body) => void Object.assign(context, { status, body }),
    leave() {
      context.respond = false
    },
  }
}
