import type { Context, Env, MiddlewareHandler } from 'hono'
import { composeMiddleware, type RateLimit } from './middleware.ts'
import type { SharedOptions } from './options.ts'
import { createRespond, createWebAddressReader, readPeerAddress, WebRequest } from './web.ts'

/** Variables of the context that the middleware sets: `new Hono<{ Variables: RateLimitVariables }>()`. */
export interface RateLimitVariables {
  /** The decision about the request, by the middleware that saw it last. */
  rateLimit: RateLimit
}

export interface HonoOptions<E extends Env = Env> extends SharedOptions<[context: Context<E>]> {
  /**
   * Answers a request that the limits refuse, instead of a problem (RFC 9457). The headers that report the limits are
   * added, and `Retry-After` and `Cache-Control: no-store` unless they are there.
   */
  readonly onLimited?: ((context: Context<E>, rateLimit: RateLimit) => Response | Promise<Response>) | undefined
}

/**
 * Limits requests to a Hono app, or to a part of it.
 * @example app.use(sluice({ limits: '10/1s, 100/1m', by: 'header:x-api-key' }))
 * @throws {OptionError} for a wrong option, in one line: its name, what was expected and the value
 */
export function sluice<E extends Env = Env>(
  options: HonoOptions<E>,
): MiddlewareHandler<{ Variables: RateLimitVariables }> {
  const parts = composeMiddleware(options)
  const { onLimited } = options
  const respond = createRespond(parts)
  const readAddress = createWebAddressReader(parts, (c) => c.req.raw, readPeer)

  return async function limitRequest(context, next): Promise<Response | undefined> {
    // The application's type, which may declare more.
    const c = context as unknown as Context<E>
    let isAdmitted = false
    let isAnswered = true
    const response = await respond({
      request: new HonoRequest(c.req.raw, [c], readAddress),
      keepAlive: (work) => keepAlive(c, work),
      record: (rateLimit) => context.set('rateLimit', rateLimit),
      async next() {
        isAdmitted = true
        await next()
        // Looking at a response that is missing would make one.
        isAnswered = c.finalized
        return isAnswered ? c.res : new Response(null, { status: 500 })
      },
      onLimited: onLimited && ((rateLimit) => onLimited(c, rateLimit)),
    })
    if (!isAdmitted) return response
    if (isAnswered && response !== c.res) {
      // Setting it over another response would add that one's headers again.
      c.res = undefined
      c.res = response
    }
    return undefined
  }
}

class HonoRequest<E extends Env> extends WebRequest<[context: Context<E>]> {
  override get parsedBody(): unknown {
    const { req } = this.context[0]
    const isRead = Object.keys(req.bodyCache).length > 0 || req.raw.bodyUsed
    if (!isRead) return undefined
    const isJson = /\bjson\b/i.test(req.header('Content-Type') ?? '')
    return (isJson ? req.json() : req.parseBody()).catch(() => null)
  }
}

/** Servers give these beside a request. Bun's server itself, or what Deno tells of the connection, may be in their place. */
interface Bindings {
  /** Given by `@hono/node-server`. */
  readonly incoming?: { readonly socket?: { readonly remoteAddress?: string } }
  readonly server?: unknown
}

function readPeer<E extends Env>({ env, req }: Context<E>): string | undefined {
  const bindings = env as Bindings | undefined
  return bindings?.incoming?.socket?.remoteAddress ?? readPeerAddress(req.raw, bindings, bindings?.server)
}

function keepAlive<E extends Env>(c: Context<E>, work: Promise<unknown>): void {
  try {
    c.executionCtx.waitUntil(work)
  } catch {
    // Hono throws where the platform has none: there, nothing ends the process after a response.
  }
}
