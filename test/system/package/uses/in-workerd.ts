import * as fetch from './fetch.ts'
import * as hono from './hono.ts'
import * as library from './library.ts'
import * as outbound from './outbound.ts'
import * as worker from './worker.ts'

const USES: Record<string, { use(apiUrl: string): Promise<unknown> }> = { fetch, hono, library, outbound, worker }

/** Answers a request for /<use> with what comes of it. */
export default {
  async fetch(request: Request, { API_URL }: { API_URL: string }): Promise<Response> {
    const name = new URL(request.url).pathname.slice(1)
    return Response.json(await USES[name]?.use(API_URL))
  },
}
