/** Middleware for handlers of `fetch`. */
import type { CheckedBy, CheckedLimits } from '../core/options/checked-text.ts'
import { OptionError } from '../core/options/option-error.ts'
import { FUNCTION, read } from '../core/options/readers.ts'
import type { RateLimit } from '../http/request/rate-limit.ts'
import type { CallerCounts } from './counts.ts'
import type { SharedOptions } from './options.ts'
import { createRespond, readPeerAddress } from './web.ts'

/** Answers a request; `rest` is what the platform gives beside it. */
export type FetchHandler<Req extends Request, Rest extends unknown[]> = (
  request: Req,
  ...rest: Rest
) => Response | Promise<Response>

export interface LimitOptions<Req extends Request = Request, Rest extends unknown[] = unknown[]>
  extends SharedOptions<[request: Req, ...rest: Rest]> {
  /**
   * Answers a request that the limits refuse, instead of a problem (RFC 9457). The headers that report the limits are
   * added, and `Retry-After` and `Cache-Control: no-store` unless they are there.
   */
  readonly onLimited?: ((request: Req, rateLimit: RateLimit, ...rest: Rest) => Response | Promise<Response>) | undefined
  /**
   * Lets work continue after the response, e.g. `waitUntil` of `@vercel/functions` or `after` of `next/server`. By default,
   * the `waitUntil()` of the first argument beside the request that has one: the context of Workers or Netlify, the event
   * of Next.js. Only platforms that stop a program after its response need it.
   * @example (work) => after(() => work)
   */
  readonly waitUntil?: ((work: Promise<unknown>, request: Req, ...rest: Rest) => void) | undefined
}

const DECISIONS = new WeakMap<Request, RateLimit>()

/**
 * Limits the requests that reach a handler, on any platform where one takes a `Request` and gives a `Response`.
 * @returns a function to use in place of the handler: it takes the same arguments, and passes them on
 * @example export default { fetch: limit((request) => new Response('hello'), { limits: '10/1s, 100/1m' }) }
 * @throws {OptionError} for a wrong option, in one line: its name, what was expected and the value
 */
export function limit<
  Req extends Request,
  Rest extends unknown[],
  LimitsText extends string = string,
  ByText extends string = string,
  PlansText extends string = string,
>(
  handler: FetchHandler<Req, Rest>,
  options: LimitOptions<Req, Rest> & CheckedLimits<LimitsText, PlansText> & CheckedBy<ByText>,
): ((request: Req, ...rest: Rest) => Promise<Response>) & CallerCounts {
  if (typeof options !== 'object' || options === null) throw new OptionError('options', 'an object', options)
  const { waitUntil, ...shared } = options
  if (waitUntil !== undefined) read(FUNCTION, waitUntil, 'waitUntil')
  read(FUNCTION, handler, 'handler')
  const { onLimited } = options
  const { respond, counts } = createRespond<[request: Req, ...rest: Rest]>(shared, {
    toRequest: (...args) => args[0],
    readPeer: readPeerAddress,
    readParsedBody: (...args) => (args[0].bodyUsed ? null : undefined),
    keepAlive: waitUntil ?? keepAlive,
    record: (rateLimit, ...args) => void DECISIONS.set(args[0], rateLimit),
    onLimited: onLimited && ((rateLimit, request, ...rest) => onLimited(request, rateLimit, ...rest)),
  })

  function limitRequest(...args: [request: Req, ...rest: Rest]): Promise<Response> {
    return respond(args, async () => {
      const response = await handler(...args)
      // A class of another realm may have made it.
      if (response?.headers) return response
      throw new TypeError(`limit: expected the handler to return a Response, got ${String(response)}`)
    })
  }
  // Deno calls a handler with as many arguments as this says, and tells the address in the second.
  return Object.assign(Object.defineProperty(limitRequest, 'length', { value: 2 }), counts)
}

/**
 * Reads the decision about a request, by the `limit()` that saw it last.
 * @example const remaining = readRateLimit(request)?.limits[0]?.remaining
 * @returns undefined if none has seen it
 */
export function readRateLimit(request: Request): RateLimit | undefined {
  return DECISIONS.get(request)
}

/** Platforms give it beside a request. */
interface Platform {
  waitUntil?(work: Promise<unknown>): void
}

function keepAlive(work: Promise<unknown>, _request: Request, ...rest: readonly unknown[]): void {
  const platforms = rest as readonly (Platform | null | undefined)[]
  platforms.find((platform) => typeof platform?.waitUntil === 'function')?.waitUntil?.(work)
}
