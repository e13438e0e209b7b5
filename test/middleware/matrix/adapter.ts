/** The form in which every middleware is tested: an app behind it, as a function from a request to its response. */

import type { RateLimit } from '../../../src/http/request/rate-limit.ts'
import type { SharedOptions } from '../../../src/middleware/options.ts'

/** A request as the functions and the routes of an app get it, in whatever form its framework has it. */
export interface AppRequest {
  /** With the query. */
  readonly path: string
  readonly headers: Headers
  /** Reads the body by the parser of the framework, if that has one. */
  text(): Promise<string>
}

export interface Options extends SharedOptions<[request: AppRequest]> {
  readonly onLimited?: ((rateLimit: RateLimit) => Response) | undefined
}

export type Handler = (request: AppRequest, rateLimit: RateLimit | undefined) => Response | Promise<Response>

/** Handlers by method and path, such as `POST /login`; `*` answers everything else. */
export type Routes = Readonly<Record<string, Handler>>

export interface Sent {
  /** Default: GET. */
  readonly method?: string
  /** Default: `/`. */
  readonly path?: string
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  readonly body?: string
  /** True: the body is sent without its length. */
  readonly hasUnknownLength?: boolean
}

export interface Adapter {
  readonly name: string
  /** Makes the middleware alone. @throws what the middleware throws for these options */
  make(options: unknown): unknown
  /**
   * Starts an app that answers 500 with the error that a handler or an option throws.
   * @param layers options of each middleware, from the outer one to the inner one
   */
  serve(layers: readonly Options[], routes: Routes): Promise<(sent: Sent) => Promise<Response>>
}

/** Gives functions what a platform gives them, as an `AppRequest`. */
export function adaptOptions<Args extends unknown[]>(
  { identify, cost, plan, delay, onDecision, isFailure, skip, trustProxy, ...others }: Omit<Options, 'onLimited'>,
  toAppRequest: (...args: Args) => AppRequest,
): SharedOptions<Args> {
  return {
    ...others,
    identify: identify && ((...args) => identify(toAppRequest(...args))),
    cost: cost && ((...args) => cost(toAppRequest(...args))),
    plan: plan && ((...args) => plan(toAppRequest(...args))),
    delay: delay && ((limits, ...args) => delay(limits, toAppRequest(...args))),
    onDecision: onDecision && ((decision, ...args) => onDecision(decision, toAppRequest(...args))),
    isFailure: isFailure && ((response, ...args) => isFailure(response, toAppRequest(...args))),
    skip: skip && ((...args) => skip(toAppRequest(...args))),
    trustProxy: typeof trustProxy === 'function' ? (...args) => trustProxy(toAppRequest(...args)) : trustProxy,
  }
}

/** Finds the handler of a request, as a router that is there for this alone. */
export function findRoute<T>(routes: Readonly<Record<string, T>>, method = '', target = ''): T | undefined {
  return routes[`${method} ${target.split('?')[0]}`] ?? routes['*']
}

const NOW_MS = 1_700_000_000_000

export const X = { headers: { Authorization: 'Bearer X' } }
export const Y = { headers: { Authorization: 'Bearer Y' } }

const showDecision: Handler = (_, rateLimit) => Response.json(rateLimit)

/**
 * @param options of the middleware, or of several from the outer one to the inner one
 * @param routes by default, everything is answered by the decision
 */
export async function start(
  adapter: Adapter,
  options: Options | readonly Options[],
  routes: Handler | Routes = showDecision,
) {
  const clock = { nowMs: NOW_MS }
  const lines: Readonly<Record<string, unknown>>[] = []
  const steered: Options = { now: () => clock.nowMs, log: (level, fields) => lines.push({ ...fields, level }) }
  const layers = [options].flat().map((each: Options) => ({ ...steered, ...each }))
  const send = await adapter.serve(layers, typeof routes === 'function' ? { '*': routes } : routes)

  /** Sends requests one after the other. @returns their statuses */
  async function sendInTurn(requests: readonly Sent[]): Promise<readonly number[]> {
    const statuses: number[] = []
    for (const sent of requests) {
      const response = await send(sent)
      await response.text()
      statuses.push(response.status)
    }
    return statuses
  }

  return { clock, lines, send, sendInTurn }
}

/** Sends requests to an app that answers everything. @returns their statuses */
export async function judge(adapter: Adapter, options: Options, requests: readonly Sent[]): Promise<readonly number[]> {
  const { sendInTurn } = await start(adapter, options)
  return sendInTurn(requests)
}

/** Reads the remaining units of each limit from the headers. */
export function readRemaining({ headers }: Response): readonly number[] {
  return (headers.get('RateLimit')?.match(/(?<=;r=)\d+/g) ?? []).map(Number)
}

/** A body that comes piece by piece. */
export function streamChunks(chunks: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  const left = [...chunks]
  return new ReadableStream({
    pull(controller) {
      const chunk = left.shift()
      if (chunk) controller.enqueue(chunk)
      else controller.close()
    },
  })
}
