/** The steps of the middleware on a server of Node, whatever framework calls it: before a request is handled, and after. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { CostTerm, UntoldReason } from '../core/model/cost.ts'
import type { Admitted, Refused } from '../core/model/verdict.ts'
import type { CallContext } from '../core/runtime/call-context.ts'
import { markIfChanged } from '../http/request/changed-path.ts'
import { isKnownAtEnd } from '../http/request/charge-builder.ts'
import { GONE, type RateLimit, toRateLimit, UNLIMITED } from '../http/request/rate-limit.ts'
import {
  type Answered,
  createRequestContext,
  keepSlots,
  type ResponseFields,
  trackResponse,
} from '../http/response/exchange.ts'
import { createMeter, MAX_READ_ON_MS, type Meter, trackCharges } from '../http/response/meter.ts'
import { createProblemResponse, NO_PAGE, TARGET_PROBLEMS } from '../http/response/problem.ts'
import { setRateLimitHeaders } from '../http/response/rate-limit-headers.ts'
import { createRefusal, findStatus } from '../http/response/refusal.ts'
import { composeMiddleware, listRefusalFields } from './middleware.ts'
import { type AnyIncoming, type AnySubject, NodeRequest, readHeader } from './node-request.ts'
import { type AnyResponse, FollowedResponse, followBody, followHead } from './node-response.ts'
import type { SharedOptions } from './options.ts'
import { createWatchedAddressReader } from './warnings.ts'

/** The middleware adds this to a request. */
export interface RateLimited {
  /** The decision about the request, by the middleware that saw it last. */
  rateLimit: RateLimit
}

/** A request in a framework, and how to answer it there in place of its handler. */
export interface NodeExchange<Subject extends AnySubject, Res extends AnyResponse> {
  /** The request or context that the framework gives handlers: functions of the application get it. */
  readonly subject: Subject
  readonly req: AnyIncoming & Partial<RateLimited>
  readonly res: Res
  /** Headers of the answer: those that the application has set stay. */
  readonly fields: ResponseFields
  answer(status: number, body: string): void
  /** Leaves the answer to who writes it into `res`. */
  leave(): void
}

/**
 * `Req` is what functions get: the request of Node or Express, that of Fastify (`sluice<FastifyRequest>`), or the context
 * of Koa.
 */
export interface NodeOptions<Req extends AnySubject = IncomingMessage, Res extends AnyResponse = ServerResponse>
  extends SharedOptions<[request: Req]> {
  /**
   * Answers a request that the limits refuse, instead of a problem (RFC 9457), in the response of Node. The status, the
   * headers that report the limits, `Retry-After` and `Cache-Control: no-store` are set before.
   */
  readonly onLimited?: ((request: Req, response: Res, rateLimit: RateLimit) => void | Promise<void>) | undefined
}

/**
 * Creates a function that decides a request, and returns one that takes what the handler returns if it is admitted, or
 * undefined if it is answered; and the counts of callers.
 * @throws {OptionError} for a wrong option
 */
export function createAdmit<Req extends AnySubject, Res extends AnyResponse>(options: NodeOptions<Req, Res>) {
  const { limiter, counts, decide, health, ipv6Prefix, headerFormat, readTarget, skip, trustProxy, log, now, warn } =
    composeMiddleware(options)
  const { onLimited } = options
  // What stands for a request in tests may have no connection.
  const readPeer = (_: Req, { socket }: Partial<AnyIncoming>) => socket?.remoteAddress ?? null
  // Most requests lack it, which takes longer to see among all raw headers.
  const readField = (name: string, _: Req, req: AnyIncoming) => (name in req.headers ? readHeader(req, name) : null)
  const readAddress = createWatchedAddressReader<[Req, AnyIncoming]>(trustProxy, readPeer, readField, warn)

  async function admit(host: NodeExchange<Req, Res>): Promise<((handled: unknown) => unknown) | undefined> {
    const { subject, req, res, fields } = host
    if (skip && (await skip(subject))) {
      req.rateLimit = UNLIMITED
      return (handled) => handled
    }
    const request = new NodeRequest(subject, req, readAddress)
    const target = readTarget(request.url)
    if (typeof target === 'string') {
      await respond(host, createProblemResponse({ type: NO_PAGE, ...TARGET_PROBLEMS[target] }))
      return undefined
    }
    const path = markIfChanged(target.path, req.url)
    const context = createRequestContext(() => {}, log)
    const exchange = { request, path, context }
    const report = (verdict: Admitted | Refused, to = toFields(res)) =>
      setRateLimitHeaders(to, verdict, headerFormat, now)
    // The client may go while the request is decided, or have gone before.
    const followed = FollowedResponse.follow(req, res)
    try {
      const verdict = await decide(exchange, () => followed.createSignal())
      if (verdict === GONE) return undefined
      req.rateLimit = toRateLimit(verdict)
      if (req.rateLimit.limits.length > 0 && followed.wasCountedBy(limiter)) warn('counted_twice')
      if (verdict.outcome === 'admitted') {
        const kept = keepSlots(verdict, context)
        const onHead = trackResponse(exchange, kept, { health, ipv6Prefix })
        const { settlement } = kept
        const getMeter =
          settlement && isKnownAtEnd(settlement.terms) ? createBodyMeter(res, settlement.terms, now) : undefined
        const begin = (answered: Answered) => trackCharges(answered, answered.cost && getMeter?.(), context)
        const isAborted = settlement?.isAborted === true
        followResponse(res as ServerResponse, followed, { onHead, report, begin, isAborted, context })
        return followed.followHandler
      }
      if (onLimited && 'violated' in verdict) {
        host.leave()
        res.statusCode = findStatus(verdict)
        for (const [name, value] of listRefusalFields(verdict.retryAfterMs)) res.setHeader(name, value)
        report(verdict)
        await onLimited(subject, res, req.rateLimit)
      } else await respond(host, createRefusal(verdict, request.headers, NO_PAGE), () => report(verdict, fields))
      return undefined
    } finally {
      context.deadlines.end()
    }
  }
  return { admit, counts }
}

/** Answers a request in place of its handler. @param report adds the headers that report limits */
async function respond(
  host: NodeExchange<AnySubject, AnyResponse>,
  response: Response,
  report?: () => void,
): Promise<void> {
  const body = await response.text()
  for (const [name, value] of response.headers) host.fields.set(name, value)
  report?.()
  host.answer(response.status, body)
}

interface Followers {
  readonly onHead: ReturnType<typeof trackResponse>
  /** Adds the headers that report limits. */
  readonly report: (verdict: Admitted) => void
  /** Begins to charge. @returns settles what the response has cost, and releases slots */
  readonly begin: (answered: Answered) => ReturnType<typeof trackCharges>
  /** True if the rest of a body that a client has left is not read. */
  readonly isAborted: boolean
  readonly context: Pick<CallContext, 'waitUntil'>
}

/** Follows the response to an admitted request to its head, and to the end of its handler or that of its connection. */
function followResponse(
  res: ServerResponse,
  followed: FollowedResponse,
  { onHead, report, begin, isAborted, context }: Followers,
): void {
  let final: Answered | undefined
  let end: ReturnType<typeof begin> | undefined
  const onAnswered = () => {
    final ??= onHead({ status: res.statusCode, headers: toFields(res) })
    end ??= begin(final)
    return final
  }
  const finish = (why: UntoldReason) => {
    const reason = followed.isDestroyedByHandler() ? 'broken' : why
    // The last that is written may be seen in this turn.
    context.waitUntil(Promise.resolve().then(() => end?.(res.writableEnded ? undefined : reason)))
  }
  // What has begun before can report nothing.
  if (res.headersSent) onAnswered()
  else followHead(res, () => report(onAnswered()))
  followed.onClose(() => {
    // What stands for a response in tests may write no head. One of HTTP/2 finishes, too, if its client leaves it.
    if (!final && res.writableEnded && res.writableFinished) report(onAnswered())
    if (final?.cost && !res.writableEnded && !isAborted) {
      return followed.onEnded(MAX_READ_ON_MS, (isLate) => finish(isLate ? 'too_late' : 'left'))
    }
    if (final) return finish('left')
    onHead()
    return followed.onHandled((isAnswered) => {
      if (isAnswered) onAnswered()
      else end ??= begin(onHead(undefined, true))
      finish('left')
    })
  })
}

/** Meters what a handler writes. @returns a function that makes the meter, once */
function createBodyMeter(res: AnyResponse, terms: readonly CostTerm[], now: () => number): () => Meter {
  const startMs = now()
  let meter: Meter | undefined
  // By the headers that are there when it begins: a compression around it adds its own later.
  const getMeter = () => {
    meter ??= createMeter({ status: res.statusCode, headers: toFields(res) }, terms, now, startMs)
    return meter
  }
  followBody(res, (chunk) => getMeter().see(chunk))
  return getMeter
}

/** The methods of headers that a response has, and what stands for it in a framework. */
export interface HeaderMethods {
  getHeader(name: string): number | string | string[] | undefined
  hasHeader(name: string): boolean
  setHeader(name: string, value: string): unknown
}

export function toFields(res: HeaderMethods): ResponseFields {
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
