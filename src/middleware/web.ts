/** The common part of the middleware for Hono and of that for `fetch`: both take a `Request` to a `Response`. */

import { GONE, type RateLimit, toRateLimit, UNLIMITED } from '../http/request/rate-limit.ts'
import type { Exchange } from '../http/request/received-request.ts'
import { createRequestContext, markSynthetic } from '../http/response/exchange.ts'
import { createFollowResponse } from '../http/response/follow-response.ts'
import { IncomingRequest } from '../http/response/incoming-request.ts'
import { createProblemResponse, NO_PAGE, TARGET_PROBLEMS } from '../http/response/problem.ts'
import { copyResponse, createProtect } from '../http/response/protect.ts'
import { createRefusal } from '../http/response/refusal.ts'
import { composeMiddleware, listRefusalFields } from './middleware.ts'
import type { SharedOptions } from './options.ts'
import { createWatchedAddressReader } from './warnings.ts'

/** nginx logs this status, which no client sees. */
const CLIENT_CLOSED_REQUEST = 499

/** The differences between the two. Functions get the arguments that the application's own get. */
export interface WebPlatform<Args extends unknown[]> {
  toRequest(...args: Args): Request
  /** Reads the address of the connection where the runtime tells it beside the request. */
  readPeer(...args: Args): string | undefined
  /** Reads what the application has parsed: see `ReceivedRequest`. */
  readParsedBody(...args: Args): unknown
  keepAlive(work: Promise<unknown>, ...args: Args): void
  /** Keeps the decision for the application. */
  record(rateLimit: RateLimit, ...args: Args): void
  /** Answers what the limits refuse; undefined: a problem does. */
  readonly onLimited: ((rateLimit: RateLimit, ...args: Args) => Response | Promise<Response>) | undefined
}

/**
 * Makes a function from a request to its response, from the handler or in its place; and the counts of callers.
 * @throws {OptionError} for a wrong option
 */
export function createRespond<Args extends unknown[]>(options: SharedOptions<Args>, platform: WebPlatform<Args>) {
  const { readTarget, decide, counts, skip, trustProxy, log, warn, ...parts } = composeMiddleware(options)
  const { toRequest, readPeer, readParsedBody, record, keepAlive, onLimited } = platform
  const protect = createProtect({
    ...parts,
    limiter: { decide: (exchange: Exchange<WebRequest>) => decide(exchange, () => exchange.request.signal) },
    followResponse: createFollowResponse({ ...parts, keepsEncoding: false }),
  })
  const readHeader = (name: string, args: Args) => toRequest(...args).headers.get(name)
  const readConnecting = (...args: Args) => readHeader('CF-Connecting-IP', args)
  const readAddress = createWatchedAddressReader(
    trustProxy ?? (isCloudflare ? (...args) => readConnecting(...args) ?? undefined : undefined),
    isCloudflare ? readConnecting : (...args) => readPeer(...args) ?? null,
    (name, ...args) => readHeader(name, args),
    warn,
  )
  /** Requests in handlers: one that comes meanwhile was passed on. Tests send one again, before or after. */
  const handled = new WeakSet<Request>()

  /** A `Request` to an application. Its address is expensive to read, and read only when needed. */
  class WebRequest extends IncomingRequest<Headers> {
    readonly context: Args

    constructor(args: Args) {
      const raw = toRequest(...args)
      super(raw, raw.headers)
      this.context = args
    }

    get address(): string | null {
      return readAddress(...this.context)
    }

    get parsedBody(): unknown {
      return readParsedBody(...this.context)
    }
  }

  /** @param next answers an admitted request */
  async function respond(args: Args, next: () => Promise<Response>): Promise<Response> {
    // As it came, whatever the application's own functions make of it.
    const request = new WebRequest(args)
    const raw = toRequest(...args)
    const wasCounted = handled.has(raw)
    if (skip && (await skip(...args))) {
      record(UNLIMITED, ...args)
      return next()
    }
    const target = readTarget(request.url)
    if (typeof target === 'string') return createProblemResponse({ type: NO_PAGE, ...TARGET_PROBLEMS[target] })
    const context = createRequestContext((work) => keepAlive(work, ...args), log)
    try {
      return await protect({ request, path: target.path, context }, async (verdict) => {
        if (verdict === GONE) return markSynthetic(new Response(null, { status: CLIENT_CLOSED_REQUEST }))
        const rateLimit = toRateLimit(verdict)
        record(rateLimit, ...args)
        if (wasCounted && rateLimit.limits.length > 0) warn('counted_twice')
        if (verdict.outcome === 'admitted') {
          handled.add(raw)
          try {
            return withOpenFields(await next())
          } finally {
            handled.delete(raw)
          }
        }
        return onLimited && 'violated' in verdict
          ? addMissingHeaders(await onLimited(rateLimit, ...args), listRefusalFields(verdict.retryAfterMs))
          : createRefusal(verdict, request.headers, NO_PAGE)
      })
    } finally {
      context.deadlines.end()
    }
  }
  return { respond, counts }
}

// Elsewhere, a client sends any `CF-Connecting-IP` that it likes.
const { navigator } = globalThis as { navigator?: { readonly userAgent?: string } }
const isCloudflare = navigator?.userAgent === 'Cloudflare-Workers'

/** Runtimes give one of these beside a request. */
interface PeerInfo {
  /** The server of Bun. */
  requestIP?(request: Request): { readonly address: string } | null
  /** Deno's handlers get it in their second argument. */
  readonly remoteAddr?: { readonly hostname?: unknown }
}

/** Reads the address of the connection from what Bun or Deno gives a handler beside the request. */
export function readPeerAddress(request: Request, ...rest: readonly unknown[]): string | undefined {
  for (const info of rest as readonly (PeerInfo | null | undefined)[]) {
    if (typeof info?.requestIP === 'function') return info.requestIP(request)?.address
    const hostname = info?.remoteAddr?.hostname
    if (typeof hostname === 'string') return hostname
  }
  return undefined
}

/**
 * To a response of `fetch`, no headers can be added. One without a body may be a constant of the application, which would
 * collect those of all requests.
 * @throws {TypeError} for a body that was read, which would never end
 */
function withOpenFields(response: Response): Response {
  if (response.bodyUsed || response.body?.locked) throw new TypeError('the body of the response has been read already')
  if (response.body === null && response.status !== 101) return openFields(response)
  try {
    // No response has this header.
    response.headers.delete('Sluice-Probe')
    return response
  } catch {
    return openFields(response)
  }
}

/** The `Response` of @hono/node-server shares the headers of what it copies, until 2.0.0. */
function openFields(response: Response): Response {
  if (isCloudflare) return copyResponse(response)
  const { body, status, statusText, headers } = response
  return new Response(body, { status, statusText, headers: new Headers(headers) })
}

function addMissingHeaders(answer: Response, fields: ReturnType<typeof listRefusalFields>): Response {
  const response = withOpenFields(answer)
  for (const [name, value] of fields) if (!response.headers.has(name)) response.headers.set(name, value)
  return response
}
