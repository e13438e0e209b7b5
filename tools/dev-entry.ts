/** The Worker, and what Cloudflare does in front of it where a development server does not. */
import { brotliDecompressSync } from 'node:zlib'
import worker from '../src/worker.ts'

export { LimitObject } from '../src/worker.ts'

type Unpack = (body: ReadableStream<Uint8Array>) => BodyInit | Promise<BodyInit>

/** Bodies of the upstream are as it has encoded them. */
const UNPACK: Readonly<Record<string, Unpack>> = {
  gzip: (body) => body.pipeThrough(new DecompressionStream('gzip')),
  deflate: (body) => body.pipeThrough(new DecompressionStream('deflate')),
  br: async (body) => brotliDecompressSync(await new Response(body).arrayBuffer()),
}

type Handle = typeof worker.fetch

export default {
  async fetch(...[request, env, ctx]: Parameters<Handle>): Promise<Response> {
    const response = await worker.fetch(request, env, ctx)
    const { clientAcceptEncoding: accepted } = (request.cf ?? {}) as { readonly clientAcceptEncoding?: string }
    // Upstreams may send gzip whatever the client accepts: a client that accepts nothing gets it unpacked.
    const unpack = UNPACK[response.headers.get('Content-Encoding') ?? '']
    if (accepted !== '' || response.body === null || unpack === undefined) return response
    const { status, statusText, headers } = response
    const unpacked = new Response(await unpack(response.body), { status, statusText, headers })
    unpacked.headers.delete('Content-Encoding')
    unpacked.headers.delete('Content-Length')
    return unpacked
  },
}
