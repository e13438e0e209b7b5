/** The steps of the middleware on a server of Node, whatever framework calls it: before a request is handled, and after. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerResponse } from 'node:http2'
import onHeaders from 'on-headers'
import type { Admitted, Refused } from '../core/model/verdict.ts'
import { OptionError } from '../core/options/option-error.ts'
import { markIfChanged } from '../http/request/changed-path.ts'
import { isMeasuredPolicy } from '../http/request/charge-builder.ts'
import { createAddressReader } from '../http/request/identity/address-reader.ts'
import { createRequestContext, type ResponseFields, trackResponse } from '../http/response/exchange.ts'
import { createProblemResponse, NO_PAGE, TARGET_PROBLEMS } from '../http/response/problem.ts'
import { setRateLimitHeaders } from '../http/response/rate-limit-headers.ts'
import { createRefusal } from '../http/response/refusal.ts'
import { composeMiddleware, listRefusalFields, type RateLimit, toRateLimit, UNLIMITED } from './middleware.ts'
import { type AnyIncoming, NodeRequest, readHeader } from './node-request.ts'
import type { SharedOptions } from './options.ts'

/** The middleware adds this to a request. */
export interface RateLimited {
  /** The decision about the request, by the middleware that saw it last. */
  rateLimit: RateLimit
}

/** Responses of HTTP/1.1 and HTTP/2 have the same methods. */
export type AnyResponse = ServerResponse | Http2ServerResponse

export interface NodeOptions<Req extends AnyIncoming = IncomingMessage, Res extends AnyResponse = ServerResponse>
  extends SharedOptions<[request: Req]> {
  /**
   * Answers a request that the limits refuse, instead of a problem (RFC 9457). The status, the headers that report the
   * limits, `Retry-After` and `Cache-Control: no-store` are set before.
   */
  readonly onLimited?: ((request: Req, response: Res, rateLimit: RateLimit) => void | Promise<void>) | undefined
}

/**
 * Creates a function that decides a request.
 * @returns true if the request is admitted: its response is followed to its end; otherwise it is answered
 * @throws {OptionError} for a wrong option
 */
export function createAdmit<Req extends AnyIncoming, Res extends AnyResponse>(options: NodeOptions<Req, Res>) {
  const { policies, limiter, health, ipv6Prefix, headerFormat, readTarget, skip, trustProxy, log, now } =
    composeMiddleware(options)
  const measured = policies.find(isMeasuredPolicy)
  if (measured) {
    const expected = 'actual_cost = "header:<name>" alone: this middleware does not see the bodies of responses'
    throw new OptionError('policies', expected, measured.name)
  }
  const { onLimited } = options
  const readPeer = (req: Req) => req.socket.remoteAddress ?? null
  const readAddress = createAddressReader(trustProxy, readPeer, (req) => readHeader(req, 'X-Forwarded-For'))

  return async function admit(req: Req & Partial<RateLimited>, res: Res): Promise<boolean> {
    if (skip && (await skip(req))) {
      req.rateLimit = UNLIMITED
      return true
    }
    const request = new NodeRequest(req, readAddress)
    const target = readTarget(request.url)
    if (typeof target === 'string') {
      await respond(res, createProblemResponse({ type: NO_PAGE, ...TARGET_PROBLEMS[target] }))
      return false
    }
    const path = markIfChanged(target.path, req.url)
    const context = createRequestContext(() => {}, log)
    const exchange = { request, path, context }
    const report = (verdict: Admitted | Refused) => setRateLimitHeaders(toFields(res), verdict, headerFormat, now)
    // The client may go while the request is decided, or have gone before.
    let isClosed = 'stream' in res ? res.stream.closed : res.closed
    res.once('close', () => {
      isClosed = true
    })
    try {
      const verdict = await limiter.decide(exchange)
      req.rateLimit = toRateLimit(verdict)
      if (verdict.outcome === 'admitted') {
        const onHead = trackResponse(exchange, verdict, { health, ipv6Prefix })
        const release = ({ hold }: Admitted) => hold && context.waitUntil(hold.release())
        followResponse(res as ServerResponse, isClosed, verdict, { onHead, report, release })
      } else if (onLimited && 'violated' in verdict) {
        res.statusCode = verdict.outcome === 'limited' ? 429 : 503
        for (const [name, value] of listRefusalFields(verdict.retryAfterMs)) res.setHeader(name, value)
        report(verdict)
        await onLimited(req, res, req.rateLimit)
      } else await respond(res, createRefusal(verdict, request.headers, NO_PAGE), () => report(verdict))
      return verdict.outcome === 'admitted'
    } finally {
      context.deadlines.end()
    }
  }
}

/** Answers a request in place of its handler. @param report adds the headers that report limits */
async function respond(res: AnyResponse, response: Response, report?: () => void): Promise<void> {
  const body = await response.text()
  res.statusCode = response.status
  for (const [name, value] of response.headers) res.setHeader(name, value)
  report?.()
  res.end(body)
}

interface Followers {
  readonly onHead: ReturnType<typeof trackResponse>
  /** Adds the headers that report limits. */
  readonly report: (verdict: Admitted) => void
  readonly release: (verdict: Admitted) => void
}

/** Follows the response to an admitted request to its head, and to its end, or to that of its connection. */
function followResponse(
  res: ServerResponse,
  isClosed: boolean,
  verdict: Admitted,
  { onHead, report, release }: Followers,
): void {
  let final: Admitted | undefined
  const onAnswered = () => {
    final ??= onHead({ status: res.statusCode, headers: toFields(res) })
    return final
  }
  onHeaders(res, () => report(onAnswered()))
  const onClose = () => {
    if (final) return release(final)
    onHead()
    // What is piped into a closed response stops, and nobody ends the response.
    if (res.listenerCount('unpipe') > 0) return release(verdict)
    // Handlers work on after their client has gone: each holds its slots until it ends the response or pipes into it, or
    // their time is over, and what it answers counts.
    const { end } = res
    const onEnd = () => {
      res.end = end
      res.off('pipe', onEnd)
      release(onAnswered())
    }
    res.once('pipe', onEnd)
    res.end = function releaseAndEnd(...args: unknown[]) {
      onEnd()
      return end.apply(res, args as never)
    } as typeof end
  }
  if (isClosed) onClose()
  else res.once('close', onClose)
}

function toFields(res: AnyResponse): ResponseFields {
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
