/** The common part of the middleware for Hono and of that for `fetch`: both take a `Request` to a `Response`. */
import { createRequestContext } from '../http/exchange.ts'
import { createHoldUntilEnd } from '../http/hold-until-end.ts'
import { IncomingRequest } from '../http/incoming-request.ts'
import { createProblemResponse, NO_PAGE, TARGET_PROBLEMS } from '../http/problem.ts'
import { copyResponse, createProtect } from '../http/protect.ts'
import { createRefusal } from '../http/refusal.ts'
import { createAddressReader } from './address-reader.ts'
import { listRefusalFields, type MiddlewareParts, type RateLimit, toRateLimit, UNLIMITED } from './middleware.ts'

/** A `Request` to an application. Its address is expensive to read, and read only when needed. */
export class WebRequest<Args extends unknown[]> extends IncomingRequest<Headers> {
  readonly context: Args
  readonly #readAddress: (...args: Args) => string | null

  /** @param args what the application's own functions get */
  constructor(raw: Request, args: Args, readAddress: (...args: Args) => string | null) {
    super(raw, raw.headers)
    this.context = args
    this.#readAddress = readAddress
  }

  get address(): string | null {
    return this.#readAddress(...this.context)
  }

  get parsedBody(): unknown {
    return this.raw.bodyUsed ? null : undefined
  }
}

export interface Exchange<Args extends unknown[]> {
  readonly request: WebRequest<Args>
  keepAlive(work: Promise<unknown>): void
  /** Keeps the decision for the application. */
  record(rateLimit: RateLimit): void
  /** Answers an admitted request. */
  next(): Promise<Response>
  /** Answers what the limits refuse; undefined: a problem does. */
  readonly onLimited: ((rateLimit: RateLimit) => Response | Promise<Response>) | undefined
}

/** Makes a function from a request to its response, from the handler or in its place. */
export function createRespond<Args extends unknown[]>(parts: MiddlewareParts<Args>) {
  const { readTarget, skip, log } = parts
  const protect = createProtect({ ...parts, holdUntilEnd: createHoldUntilEnd({ ...parts, keepsEncoding: false }) })

  return async function respond(exchange: Exchange<Args>): Promise<Response> {
    const { request, onLimited } = exchange
    if (skip && (await skip(...request.context))) {
      exchange.record(UNLIMITED)
      return exchange.next()
    }
    const target = readTarget(request.url)
    if (typeof target === 'string') return createProblemResponse({ type: NO_PAGE, ...TARGET_PROBLEMS[target] })
    const call = createRequestContext((work) => exchange.keepAlive(work), log)
    try {
      return await protect(request, target.path, call, async (verdict) => {
        const rateLimit = toRateLimit(verdict)
        exchange.record(rateLimit)
        if (verdict.outcome === 'admitted') return withOpenFields(await exchange.next())
        return onLimited && 'violated' in verdict
          ? addMissingHeaders(await onLimited(rateLimit), listRefusalFields(verdict.retryAfterMs))
          : createRefusal(verdict, request.headers, NO_PAGE)
      })
    } finally {
      call.deadlines.end()
    }
  }
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

/** @param readPeer reads the address of the connection where the runtime tells it beside the request */
export function createWebAddressReader<Args extends unknown[]>(
  { trustProxy, log }: MiddlewareParts<Args>,
  toRequest: (...args: Args) => Request,
  readPeer: (...args: Args) => string | undefined,
): (...args: Args) => string | null {
  const readHeader = (name: string, args: Args) => toRequest(...args).headers.get(name)
  let isWarned = false
  return createAddressReader(
    trustProxy,
    (...args) => {
      const peer = isCloudflare ? readHeader('CF-Connecting-IP', args) : (readPeer(...args) ?? null)
      if (peer === null && !isWarned) {
        isWarned = true
        const message = 'addresses of callers are not known here, so all are counted as one: see trustProxy'
        log('warn', { event: 'unknown_address', message })
      }
      return peer
    },
    (...args) => readHeader('X-Forwarded-For', args),
  )
}

/**
 * To a response of `fetch`, no headers can be added. One without a body may be a constant of the application, which would
 * collect those of all requests.
 */
function withOpenFields(response: Response): Response {
  if (response.body === null && response.status !== 101) return copyResponse(response)
  try {
    // No response has this header.
    response.headers.delete('Sluice-Probe')
    return response
  } catch {
    return copyResponse(response)
  }
}

function addMissingHeaders(answer: Response, fields: ReturnType<typeof listRefusalFields>): Response {
  const response = withOpenFields(answer)
  for (const [name, value] of fields) if (!response.headers.has(name)) response.headers.set(name, value)
  return response
}
