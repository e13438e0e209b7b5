import type { IncomingMessage, ServerResponse } from 'node:http'
import onHeaders from 'on-headers'
import { composeLimiter } from '../engine/compose-limiter.ts'
import { type Admitted, beginExchange, type Refused, type ResponseFields, tellLimits } from '../http/exchange.ts'
import { noTarget } from '../http/no-target.ts'
import { retryAfter } from '../http/problem.ts'
import { refusal } from '../http/refusal.ts'
import { requestContext } from '../http/request-context.ts'
import { createPathReader, createTargetReader, type RequestPath } from '../request/target.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { forwardedAddress } from './forwarded.ts'
import { isChanged, NodeRequest } from './node-request.ts'
import { readOptions, type SharedOptions } from './options.ts'
import { type RateLimit, rateLimitOf, UNLIMITED } from './rate-limit.ts'

/** What the middleware adds to a request. */
export interface RateLimited {
  /** What was decided about the request, by the middleware that saw it last. */
  rateLimit: RateLimit
}

export interface SluiceOptions<Req extends IncomingMessage = IncomingMessage> extends SharedOptions<Req> {
  /**
   * Answers a request that the limits refuse, instead of a problem (RFC 9457). The status, the fields that report the
   * limits, `Retry-After` and `Cache-Control: no-store` are set before.
   */
  readonly onLimited?:
    | ((request: Req, response: ServerResponse, rateLimit: RateLimit) => void | Promise<void>)
    | undefined
}

/** As Express, Connect and `@fastify/middie` take it. */
export type NodeMiddleware<Req extends IncomingMessage> = (
  request: Req,
  response: ServerResponse,
  next: (error?: Error) => void,
) => void

/**
 * Limits requests to a server of Node: Express, Fastify, or any that takes `(req, res, next)`.
 * @throws {OptionError} for a wrong option, in one line: its name, what was expected and the value
 */
export function sluice<Req extends IncomingMessage = IncomingMessage>(
  options: SluiceOptions<Req>,
): NodeMiddleware<Req> {
  const { config, store, createLeases, readClaim, health, dialect, literalInPaths, skip, trustProxy, log, now } =
    readOptions(options)
  const { ipv6Prefix } = config
  const { onLimited } = options
  const { limiter } = composeLimiter(config, { store, now, log, createLeases, readClaim, health })
  const readTarget = createTargetReader(createPathReader(literalInPaths))
  const addressOf = createAddressReader(trustProxy)

  return function limited(req, res, next) {
    decide(req, res).then(
      (goesOn) => {
        if (goesOn) next()
      },
      next as (error: unknown) => void,
    )
  }

  /** @returns whether the request goes on; otherwise it is answered */
  async function decide(req: Req, res: ServerResponse): Promise<boolean> {
    const told = req as Req & Partial<RateLimited>
    if (skip && (await skip(req))) {
      told.rateLimit = UNLIMITED
      return true
    }
    const request = new NodeRequest(req, addressOf)
    const target = readTarget(request.url)
    if (typeof target === 'string') {
      await answer(res, noTarget(target))
      return false
    }
    const path = isChanged(req) ? ambiguous(target.path) : target.path
    const call = requestContext(() => {}, log)
    const onClose = watchClose(res)
    try {
      const verdict = await limiter.decide(request, path, call)
      told.rateLimit = rateLimitOf(verdict)
      if (verdict.kind === 'admitted') {
        follow(request, res, verdict, call, onClose)
        return true
      }
      if (onLimited && (verdict.kind === 'limited' || verdict.kind === 'reserved')) {
        res.statusCode = verdict.kind === 'limited' ? 429 : 503
        for (const [name, value] of Object.entries(retryAfter(verdict.retryAfterMs))) res.setHeader(name, value)
        res.setHeader('Cache-Control', 'no-store')
        tellLimits(fieldsOf(res), verdict, dialect, now)
        await onLimited(req, res, told.rateLimit)
      } else await answer(res, refusal(verdict), verdict)
      return false
    } finally {
      call.deadlines.end()
    }
  }

  async function answer(res: ServerResponse, response: Response, verdict?: Refused): Promise<void> {
    const body = await response.text()
    res.statusCode = response.status
    for (const [name, value] of response.headers) res.setHeader(name, value)
    if (verdict) tellLimits(fieldsOf(res), verdict, dialect, now)
    res.end(body)
  }

  /** Sees an admitted request through to its end. */
  function follow(
    request: NodeRequest<Req>,
    res: ServerResponse,
    verdict: Admitted,
    context: CallContext,
    onClose: (then: () => void) => void,
  ): void {
    const onHead = beginExchange(request, verdict, { health, ipv6Prefix, context })
    let told: Admitted | undefined
    onHeaders(res, () => {
      const headers = fieldsOf(res)
      told ??= onHead({ status: res.statusCode, headers })
      tellLimits(headers, told, dialect, now)
    })
    onClose(() => {
      // A client that goes away must not keep what it has asked for from being a failure: handlers go on, and tell.
      if (!verdict.failures) told ??= onHead()
      const { hold } = told ?? verdict
      if (hold) context.waitUntil(hold.release())
    })
  }
}

/**
 * Watches for the end of a response, whether it was sent or its client has gone.
 * @returns a function that sets what is then done; at once, if it has come already
 */
function watchClose(res: ServerResponse): (then: () => void) => void {
  let isClosed = false
  let done: (() => void) | undefined
  res.once('close', () => {
    isClosed = true
    done?.()
  })
  return (then) => {
    if (isClosed) then()
    else done = then
  }
}

function createAddressReader<Req extends IncomingMessage>(trustProxy: SluiceOptions<Req>['trustProxy']) {
  return function addressOf(req: Req): string | null {
    if (typeof trustProxy === 'function') return trustProxy(req) ?? null
    const peer = req.socket.remoteAddress ?? null
    if (trustProxy === undefined) return peer
    return forwardedAddress(req.headersDistinct['x-forwarded-for']?.join(', ') ?? null, trustProxy, peer)
  }
}

/** A path that a router may take for any other. */
function ambiguous(path: RequestPath): RequestPath {
  const decoded = path.ambiguity?.decoded ?? path.canonical
  return { ...path, ambiguity: { prefix: '/', mayGoUp: true, decoded } }
}

/** The fields of a response that has no `Headers` of its own. */
function fieldsOf(res: ServerResponse): ResponseFields {
  const get = (name: string) => {
    const value = res.getHeader(name)
    return value === undefined ? null : Array.isArray(value) ? value.join(', ') : String(value)
  }
  return {
    get,
    has: (name) => res.hasHeader(name),
    set: (name, value) => res.setHeader(name, value),
    append(name, value) {
      const before = get(name)
      res.setHeader(name, before === null ? value : `${before}, ${value}`)
    },
  }
}
