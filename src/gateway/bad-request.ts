import { type Problem, problemResponse } from '../http/problem.ts'

/** Why a request can be neither decided nor forwarded. */
export type BadRequest = 'connection' | 'headers' | 'host' | 'loop' | 'method'

/** The methods that every API may know. */
export const ALLOW = { Allow: 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS' }

const PROBLEMS: Readonly<Record<BadRequest, Problem>> = {
  connection: {
    status: 400,
    title: 'Bad Request',
    detail: 'The field Connection names a field that is not about the connection, or too many.',
  },
  headers: { status: 431, title: 'Request Header Fields Too Large', detail: 'The request has too many fields.' },
  // RFC 9112 §3.2
  host: { status: 400, title: 'Bad Request', detail: 'Invalid request target or Host header.' },
  // RFC 5842 §7.2: the upstream has sent the request back, and it would go round forever.
  loop: {
    status: 508,
    title: 'Loop Detected',
    detail: 'This request has passed this gateway before: the API behind it leads back to it.',
  },
  // A server that reflects what it receives would show the client UPSTREAM_SECRET.
  method: { status: 405, title: 'Method Not Allowed', detail: 'TRACE is not forwarded.', headers: ALLOW },
}

/** The response to such a request. */
export function badRequest(reason: BadRequest): Response {
  return problemResponse(PROBLEMS[reason])
}
