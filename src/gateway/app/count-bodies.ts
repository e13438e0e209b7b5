/** Counts the bodies of requests on their way to the API. */
import type { Settlement } from '../../core/model/verdict.ts'
import { readAnnouncedBytes } from '../../http/request/received-request.ts'
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
  return function proxyCounted(request, target, passage) {
    const { settlement } = passage
    if (!settlement?.terms.some(({ kind }) => kind === 'bytes:request') || !request.raw.body)
      return proxy(request, target, passage)
    const counted = countBody(request, request.raw.body, settlement)
    return counted instanceof Response ? Promise.resolve(counted) : proxy(counted, target, passage)
  }
}

/** @returns the request to forward, or a refusal */
function countBody(
  request: IncomingRequest,
  sent: ReadableStream<Uint8Array>,
  settlement: Settlement,
): IncomingRequest | Response {
  const { raw, headers, method } = request
  const announced = readAnnouncedBytes(headers)
  settlement.requestBytes = announced ?? 0
  if (announced !== undefined) return request
  // The runtime makes no request of these methods with a stream that has counted.
  if (method === 'GET' || method === 'HEAD') return markSynthetic(createProblemResponse(LENGTH_REQUIRED))
  const body = sent.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        settlement.requestBytes = (settlement.requestBytes ?? 0) + chunk.byteLength
        controller.enqueue(chunk)
      },
    }),
  )
  const init = { body, duplex: 'half' }
  return new IncomingRequest(new Request(raw, init), headers)
}
