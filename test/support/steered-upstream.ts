import type { IncomingMessage, ServerResponse } from 'node:http'
import { startUpstream, type Upstream } from './upstream.ts'

export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

export interface SteeredUpstream extends Upstream {
  /** Requests that have come so far. */
  readonly requests: number
  /**
   * The next request, to be answered by the test; each is handed out once, in the order they came.
   * @throws Error if none comes
   */
  next(): Promise<Exchange>
  /** Ends what a test has left behind, so that the next one starts anew. */
  reset(): void
}

/** Longer than a slow machine takes for a request. */
const PATIENCE_MS = 20_000

/** An API on 127.0.0.1 that answers each request when, and as, the test does. */
export async function startSteeredUpstream(): Promise<SteeredUpstream> {
  const arrived: Exchange[] = []
  const awaited: PromiseWithResolvers<Exchange>[] = []
  let requests = 0
  const upstream = await startUpstream((request, response) => {
    requests++
    const waiting = awaited.shift()
    if (waiting) waiting.resolve({ request, response })
    else arrived.push({ request, response })
  })
  return {
    ...upstream,
    get requests() {
      return requests
    },
    next() {
      const exchange = arrived.shift()
      if (exchange) return Promise.resolve(exchange)
      const waiting = Promise.withResolvers<Exchange>()
      awaited.push(waiting)
      const timer = setTimeout(() => {
        const index = awaited.indexOf(waiting)
        if (index < 0) return
        awaited.splice(index, 1)
        waiting.reject(new Error(`no request has come within ${PATIENCE_MS / 1000} s`))
      }, PATIENCE_MS)
      timer.unref()
      return waiting.promise
    },
    reset() {
      awaited.length = 0
      for (const { response } of arrived.splice(0)) response.destroy()
    },
  }
}
