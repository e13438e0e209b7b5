import type { IncomingMessage, ServerResponse } from 'node:http'
import { startUpstream, type Upstream } from './upstream.ts'

export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

export interface SteeredUpstream extends Upstream {
  /** Requests that have come so far. */
  readonly requests: number
  /** The next request, to be answered by the test; each is handed out once, in the order they came. */
  next(): Promise<Exchange>
  /** Ends what a test has left behind, so that the next one starts anew. */
  reset(): void
}

/** An API on 127.0.0.1 that answers each request when, and as, the test does. */
export async function startSteeredUpstream(): Promise<SteeredUpstream> {
  const arrived: Exchange[] = []
  const awaited: ((exchange: Exchange) => void)[] = []
  let requests = 0
  const upstream = await startUpstream((request, response) => {
    requests++
    const hand = awaited.shift()
    if (hand) hand({ request, response })
    else arrived.push({ request, response })
  })
  return {
    ...upstream,
    get requests() {
      return requests
    },
    next() {
      const exchange = arrived.shift()
      return exchange ? Promise.resolve(exchange) : new Promise((resolve) => awaited.push(resolve))
    },
    reset() {
      awaited.length = 0
      for (const { response } of arrived.splice(0)) response.destroy()
    },
  }
}
