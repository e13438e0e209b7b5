/** The Worker, and what Cloudflare does in front of it where a development server does not. */
import worker from '../src/worker.ts'

export { LimitObject } from '../src/worker.ts'

type Handle = typeof worker.fetch

export default {
  async fetch(...[request, env, ctx]: Parameters<Handle>): Promise<Response> {
    const response = await worker.fetch(request, env, ctx)
    const { clientAcceptEncoding: accepted } = (request.cf ?? {}) as { readonly clientAcceptEncoding?: string }
    // Upstreams are asked for gzip whatever the client accepts: a client that has asked for nothing gets it unpacked.
    if (accepted !== '' || response.body === null || !response.headers.has('Content-Encoding')) return response
    const unpacked = new Response(response.body, response)
    unpacked.headers.delete('Content-Encoding')
    unpacked.headers.delete('Content-Length')
    return unpacked
  },
}
