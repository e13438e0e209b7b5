/** Counts the bodies of requests on their way to the API. */
import { markSynthetic } from '../../http/response/exchange.ts'
import { IncomingRequest } from '../../http/response/incoming-request.ts'
import { createProblemResponse } from '../../http/response/problem.ts'
import type { UpstreamProxy } from './proxy.ts'

const LENGTH_REQUIRED = {
  code: 'length_required',
  status: 411,
  title: 'Length Required',
  detail: 'A GET or HEAD request with a body needs a Content-Length.',
} as const

/** @returns a proxy that tells settlements the bytes of the request: announced, or else what has passed so far */
export function countBodies(proxy: UpstreamProxy): UpstreamProxy {
  return async (request, target, passage) => {
    const { raw, headers, method } = request
    const { settlement } = passage
    const forward = (counted: IncomingRequest) => proxy(counted, target, passage)
    if (!raw.body || !settlement?.terms.some(({ kind }) => kind === 'bytes:request')) return forward(request)
    const length = headers.has('Transfer-Encoding') ? null : headers.get('Content-Length')
    settlement.requestBytes = 0
    if (length && /^\d{1,15}$/.test(length)) {
      settlement.requestBytes = Number(length)
      return forward(request)
    }
    // The runtime makes no request of these methods with a stream that has counted.
    if (method === 'GET' || method === 'HEAD') return markSynthetic(createProblemResponse(LENGTH_REQUIRED))
    const body = raw.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          settlement.requestBytes = (settlement.requestBytes ?? 0) + chunk.byteLength
          controller.enqueue(chunk)
        },
      }),
    )
    const init = { body, duplex: 'half' }
    return forward(new IncomingRequest(new Request(raw, init), headers))
  }
}
