/** Responses that the gateway makes by itself when a request is wrong or the upstream fails. */
import { IncomingRequest, RequestHeaders } from '../../http/response/incoming-request.ts'
import {
  createProblem,
  createProblemResponse,
  NOT_SERVED,
  type Problem,
  TARGET_PROBLEMS,
} from '../../http/response/problem.ts'

const ALLOW = { Allow: 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS' }

/** Responses of the gateway itself: the request is invalid, or the upstream has not answered. */
const PROBLEMS = {
  ...TARGET_PROBLEMS,
  // The client does not receive this: it shows in logs that the upstream is not to blame.
  'client-gone': createProblem('client_closed_request', 499, 'The client closed the connection.'),
  connection: createProblem(
    'invalid_connection',
    400,
    'The Connection header names an end-to-end header, or too many.',
  ),
  failed: createProblem('internal_error', 500, 'Internal gateway error.'),
  'foreign-variables': createProblem(
    'misconfigured',
    500,
    'sluice/worker has the variables of its own Worker; for others, use createGateway() of sluice/gateway.',
  ),
  headers: createProblem('too_many_headers', 431, 'Too many request headers (maximum 100).'),
  // RFC 5842 §7.2: the upstream has sent the request back, and it would loop forever.
  loop: createProblem('proxy_loop', 508, 'Proxy loop: the upstream points back to this gateway.'),
  // A server that reflects requests would show the client UPSTREAM_SECRET.
  method: createProblem('method_not_allowed', 405, 'TRACE is not forwarded.', { headers: ALLOW }),
  'not-served': NOT_SERVED,
  unreachable: createProblem('upstream_unreachable', 502, 'The upstream could not be reached.'),
  'upstream-timeout': createProblem('upstream_timeout', 504, 'The upstream did not respond in time.'),
} satisfies Readonly<Record<string, Problem>>

export type Reason = keyof typeof PROBLEMS

export function createGatewayProblem(reason: Reason): Response {
  return createProblemResponse(PROBLEMS[reason])
}

/** The value is logged, and never returned to a client. */
export function createMisconfiguredProblem(variable: string): Response {
  return createProblemResponse({
    code: 'misconfigured',
    status: 500,
    title: 'Misconfigured',
    detail: `Gateway misconfigured: ${variable} is invalid. See the log.`,
  })
}

/** Answers with the page about the codes of problems, to which their `type` leads. */
export async function serveErrors(): Promise<Response> {
  const { ERRORS_PAGE } = await import('./errors-page.ts')
  return new Response(ERRORS_PAGE, {
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
      'Cache-Control': 'max-age=3600',
    },
  })
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
