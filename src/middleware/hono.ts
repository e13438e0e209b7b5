/** Middleware for Hono. */
import type { Context, Env, MiddlewareHandler } from 'hono'
import type { CheckedBy, CheckedLimits } from '../core/options/checked-text.ts'
import type { RateLimit } from '../http/request/rate-limit.ts'
import type { CallerCounts } from './counts.ts'
import type { SharedOptions } from './options.ts'
import { createRespond, readPeerAddress } from './web.ts'

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
export function sluice<
  E extends Env = Env,
  LimitsText extends string = string,
  ByText extends string = string,
  PlansText extends string = string,
>(
  options: HonoOptions<E> & CheckedLimits<LimitsText, PlansText> & CheckedBy<ByText>,
): MiddlewareHandler<{ Variables: RateLimitVariables }> & CallerCounts {
  // That it is a table is checked below.
  const onLimited = options?.onLimited
  const { respond, counts } = createRespond(options, {
    toRequest: (c) => c.req.raw,
    readPeer,
    readParsedBody,
    keepAlive,
    record: (rateLimit, c: Context) => c.set('rateLimit', rateLimit),
    onLimited: onLimited && ((rateLimit, c) => onLimited(c, rateLimit)),
  })

  const limitRequest: MiddlewareHandler<{ Variables: RateLimitVariables }> = async (context, next) => {
    // The application's type, which may declare more.
    const c = context as unknown as Context<E>
    let isAdmitted = false
    let isAnswered = true
    const response = await respond([c], async () => {
      isAdmitted = true
      await next()
      // Looking at a response that is missing would make one.
      isAnswered = c.finalized
      return isAnswered ? c.res : new Response(null, { status: 500 })
    })
    if (!isAdmitted) {
      // Before @hono/node-server 2, whoever reads a body first does not see which headers were added.
      const { headers } = response
      c.status(response.status as Parameters<typeof c.status>[0])
      for (const [name, value] of headers) c.header(name, value)
      // Its headers are beside those that the application has set before.
      return c.newResponse(response.body)
    }
    if (isAnswered && response !== c.res) {
      // Setting it over another response would add that one's headers again.
      c.res = undefined
      c.res = response
    }
    return undefined
  }
  return Object.assign(limitRequest, counts)
}

function readParsedBody<E extends Env>({ req }: Context<E>): unknown {
  const isRead = Object.keys(req.bodyCache).length > 0 || req.raw.bodyUsed
  if (!isRead) return undefined
  const isJson = /\bjson\b/i.test(req.header('Content-Type') ?? '')
  return (isJson ? req.json() : req.parseBody()).catch(() => null)
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

function keepAlive<E extends Env>(work: Promise<unknown>, c: Context<E>): void {
  try {
    c.executionCtx.waitUntil(work)
  } catch {
    // Hono throws where the platform has none: there, nothing ends the process after a response.
  }
}
