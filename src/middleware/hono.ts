import type { Context, Env, MiddlewareHandler } from 'hono'
import { requestContext } from '../http/exchange.ts'
import { holdUntilEnd } from '../http/hold-until-end.ts'
import { problemResponse, TARGET_PROBLEMS } from '../http/problem.ts'
import { type AbortableRequest, copyResponse, createProtect } from '../http/protect.ts'
import { createRefusal } from '../http/refusal.ts'
import type { Log } from '../runtime/log.ts'
import { createAddressReader } from './address-reader.ts'
import { composeMiddleware, isOverLimits, type RateLimit, refusalFields, toRateLimit, UNLIMITED } from './middleware.ts'
import type { SharedOptions } from './options.ts'

/** Variables of the context that the middleware sets: `new Hono<{ Variables: RateLimitVariables }>()`. */
export interface RateLimitVariables {
  /** The decision about the request, by the middleware that saw it last. */
  rateLimit: RateLimit
}

export interface SluiceOptions<E extends Env = Env> extends SharedOptions<Context<E>> {
  /**
   * Answers a request that the limits refuse, instead of a problem (RFC 9457). The fields that report the limits are
   * added, and `Retry-After` and `Cache-Control: no-store` unless they are there.
   */
  readonly onLimited?: ((context: Context<E>, rateLimit: RateLimit) => Response | Promise<Response>) | undefined
}

// Elsewhere, a client sends any `CF-Connecting-IP` that it likes.
const { navigator } = globalThis as { navigator?: { readonly userAgent?: string } }
const isCloudflare = navigator?.userAgent === 'Cloudflare-Workers'

/**
 * Limits requests to a Hono app, or to a part of it.
 * @throws {ConfigError} for a wrong option, in one line: its name, what was expected and the value
 */
export function sluice<E extends Env = Env>(
  options: SluiceOptions<E>,
): MiddlewareHandler<{ Variables: RateLimitVariables }> {
  const parts = composeMiddleware(options)
  const { readTarget, skip, log } = parts
  const { onLimited } = options
  const protect = createProtect({ ...parts, holdUntilEnd })
  const readForwarded = (c: Context<E>) => c.req.raw.headers.get('X-Forwarded-For')
  const readAddress = createAddressReader(parts.trustProxy, createPeerReader(log), readForwarded)

  return async function limited(context, next): Promise<Response | undefined> {
    // The application's type, which may declare more.
    const c = context as unknown as Context<E>
    if (skip && (await skip(c))) {
      context.set('rateLimit', UNLIMITED)
      await next()
      return undefined
    }
    const target = readTarget(c.req.raw.url)
    if (typeof target === 'string') return problemResponse(TARGET_PROBLEMS[target])
    const call = requestContext((work) => keepAlive(c, work), log)
    let isAdmitted = false
    try {
      const response = await protect(new HonoRequest(c, readAddress), target.path, call, {
        async next(verdict) {
          isAdmitted = true
          context.set('rateLimit', toRateLimit(verdict))
          await next()
          return withOpenFields(c.res)
        },
        async refuse(verdict) {
          const rateLimit = toRateLimit(verdict)
          context.set('rateLimit', rateLimit)
          return onLimited && isOverLimits(verdict)
            ? addMissingHeaders(await onLimited(c, rateLimit), refusalFields(verdict))
            : createRefusal(verdict)
        },
      })
      if (!isAdmitted) return response
      if (response !== c.res) {
        // Setting it over another response would add that one's headers again.
        c.res = undefined
        c.res = response
      }
      return undefined
    } finally {
      call.deadlines.end()
    }
  }
}

/** A request of Hono. Its signal, body and address are expensive to read, and read only when needed. */
class HonoRequest<E extends Env> implements AbortableRequest {
  readonly context: Context<E>
  readonly method: string
  readonly url: string
  readonly headers: Headers
  readonly #readAddress: (context: Context<E>) => string | null

  constructor(context: Context<E>, readAddress: (context: Context<E>) => string | null) {
    const { method, url, headers } = context.req.raw
    this.context = context
    this.method = method
    this.url = url
    this.headers = headers
    this.#readAddress = readAddress
  }

  get body(): unknown {
    return this.context.req.raw.body
  }

  get signal(): AbortSignal {
    return this.context.req.raw.signal
  }

  get address(): string | null {
    return this.#readAddress(this.context)
  }

  get parsedBody(): unknown {
    const { req } = this.context
    const isRead = Object.keys(req.bodyCache).length > 0 || req.raw.bodyUsed
    if (!isRead) return undefined
    const isJson = /\bjson\b/i.test(req.header('Content-Type') ?? '')
    return (isJson ? req.json() : req.parseBody()).catch(() => null)
  }

  clone(): Request {
    return this.context.req.raw.clone() as Request
  }
}

/** `@hono/node-server` adds these to a request. */
interface NodeBindings {
  readonly incoming?: { readonly socket?: { readonly remoteAddress?: string } }
}

function createPeerReader<E extends Env>(log: Log) {
  let isLogged = false
  return function readPeer(c: Context<E>): string | null {
    const peer = isCloudflare
      ? c.req.raw.headers.get('CF-Connecting-IP')
      : ((c.env as NodeBindings | undefined)?.incoming?.socket?.remoteAddress ?? null)
    if (peer === null && !isLogged) {
      isLogged = true
      const message = 'addresses of callers are not known here, so all are counted as one: see trustProxy'
      log('warn', { event: 'unknown_address', message })
    }
    return peer
  }
}

function keepAlive<E extends Env>(c: Context<E>, work: Promise<unknown>): void {
  try {
    c.executionCtx.waitUntil(work)
  } catch {
    // Hono throws where the platform has none: there, nothing ends the process after a response.
  }
}

/** To a response of `fetch`, no headers can be added. */
function withOpenFields(response: Response): Response {
  try {
    // No response has this header.
    response.headers.delete('Sluice-Probe')
    return response
  } catch {
    return copyResponse(response)
  }
}

function addMissingHeaders(answer: Response, fields: ReturnType<typeof refusalFields>): Response {
  const response = withOpenFields(answer)
  for (const [name, value] of fields) if (!response.headers.has(name)) response.headers.set(name, value)
  return response
}
