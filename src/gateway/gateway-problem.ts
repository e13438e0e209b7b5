import { type Problem, problemResponse, TARGET_PROBLEMS } from '../http/problem.ts'
import { IncomingRequest, RequestHeaders } from './incoming-request.ts'

const ALLOW = { Allow: 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS' }

/** Responses of the gateway itself: the request is invalid, or the upstream has not answered. */
const PROBLEMS = {
  ...TARGET_PROBLEMS,
  // The client does not receive this: it shows in logs that the upstream is not to blame.
  'client-gone': { status: 499, title: 'Client Closed Request', detail: 'The client went away.' },
  connection: {
    status: 400,
    title: 'Bad Request',
    detail: 'The field Connection names a field that is not about the connection, or too many.',
  },
  failed: { status: 500, title: 'Internal Server Error', detail: 'The gateway failed on this request.' },
  headers: { status: 431, title: 'Request Header Fields Too Large', detail: 'The request has too many fields.' },
  host: { status: 400, title: 'Bad Request', detail: 'Invalid request target or Host header.' },
  // RFC 5842 §7.2: the upstream has sent the request back, and it would loop forever.
  loop: {
    status: 508,
    title: 'Loop Detected',
    detail: 'This request has passed this gateway before: the API behind it leads back to it.',
  },
  // A server that reflects requests would show the client UPSTREAM_SECRET.
  method: { status: 405, title: 'Method Not Allowed', detail: 'TRACE is not forwarded.', headers: ALLOW },
  unreachable: { status: 502, title: 'Bad Gateway', detail: 'The API behind this gateway could not be reached.' },
  'upstream-timeout': {
    status: 504,
    title: 'Gateway Timeout',
    detail: 'The API behind this gateway did not answer in time.',
  },
} satisfies Readonly<Record<string, Problem>>

export type Reason = keyof typeof PROBLEMS

export function gatewayProblem(reason: Reason): Response {
  return problemResponse(PROBLEMS[reason])
}

/** The largest value that is forwarded: longer than any chain of proxies. */
const MAX_VALUE = 255

/** Counts an OPTIONS request down (RFC 9110 §7.6.2). @returns a response if it must not be forwarded any further */
export function countDown(request: IncomingRequest): IncomingRequest | Response {
  const value = request.headers.get('Max-Forwards') ?? ''
  const isNumber = /^\d+$/.test(value)
  if (isNumber && Number(value) === 0) return new Response(null, { status: 204, headers: ALLOW })
  const headers = new Headers(request.headers.raw)
  // A value that is no number cannot be counted down behind the gateway either.
  if (isNumber) headers.set('Max-Forwards', String(Math.min(Number(value) - 1, MAX_VALUE)))
  else headers.delete('Max-Forwards')
  return new IncomingRequest(request.raw, new RequestHeaders(headers, new Set(headers.keys())))
}
