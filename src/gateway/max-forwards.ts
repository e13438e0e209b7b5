import { ALLOW } from './gateway-problem.ts'
import { IncomingRequest } from './incoming-request.ts'
import { RequestHeaders } from './request-headers.ts'

/** The largest value that is forwarded: more than any chain of proxies is long. */
const MAX_VALUE = 255

/**
 * Counts an OPTIONS request down (RFC 9110 §7.6.2).
 * @returns the request to forward, or the response to one that must not be forwarded any further
 */
export function countDown(request: IncomingRequest): IncomingRequest | Response {
  const value = request.headers.get('Max-Forwards') ?? ''
  const isNumber = /^\d+$/.test(value)
  if (isNumber && Number(value) === 0) return new Response(null, { status: 204, headers: ALLOW })
  const headers = new Headers(request.headers.raw)
  // A value that is no number cannot be counted down by anyone behind the gateway either.
  if (isNumber) headers.set('Max-Forwards', String(Math.min(Number(value) - 1, MAX_VALUE)))
  else headers.delete('Max-Forwards')
  return new IncomingRequest(request.raw, new RequestHeaders(headers, new Set(headers.keys())))
}
