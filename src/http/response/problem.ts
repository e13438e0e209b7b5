/** Problems: error responses for people and programs (RFC 9457). */
import type { WholeMs } from '../../core/model/verdict.ts'
import type { NoTarget } from '../request/target.ts'

/** The type of problems where no page explains them (RFC 9457 §4.2.1). */
export const NO_PAGE = 'about:blank'

/** The registered problem types of draft-ietf-httpapi-ratelimit-headers-11, §6. */
const REGISTRY = 'https://iana.org/assignments/http-problem-types'

/** The kind of error, for programs; docs/errors.md explains each. Published codes keep their meanings. */
export type ProblemCode =
  // Limits
  | 'limit_exceeded'
  | 'failure_limit_exceeded'
  | 'penalty_active'
  | 'deprioritized'
  | 'shed'
  | 'blocked'
  | 'identity_missing'
  | 'invalid_cost'
  | 'store_unavailable'
  // Requests that cannot be forwarded
  | 'ambiguous_path'
  | 'invalid_target'
  | 'url_too_long'
  | 'invalid_connection'
  | 'too_many_headers'
  | 'length_required'
  | 'method_not_allowed'
  | 'not_found'
  // The gateway and the upstream
  | 'client_closed_request'
  | 'internal_error'
  | 'misconfigured'
  | 'proxy_loop'
  | 'upstream_unreachable'
  | 'upstream_timeout'
  // The admin API
  | 'unauthorized'
  | 'too_many_attempts'
  | 'cross_origin'
  | 'unknown_operation'
  | 'invalid_input'
  | 'unsupported_media_type'
  | 'body_too_large'
  | 'rules_disabled'
  | 'rules_invalid'
  | 'rules_too_large'
  | 'statistics_disabled'
  | 'version_conflict'
  | 'version_not_found'

export interface Problem {
  readonly code: ProblemCode
  readonly status: number
  readonly title: string
  /** Text for people, without secrets or client input. */
  readonly detail: string
  /** A URI; by default a reference to the gateway's own page about the code. Elsewhere there is none: `about:blank`. */
  readonly type?: string
  readonly extensions?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string>>
}

const TITLES = {
  400: 'Bad Request',
  401: 'Unauthorized',
  402: 'Payment Required',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  413: 'Content Too Large',
  414: 'URI Too Long',
  415: 'Unsupported Media Type',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  499: 'Client Closed Request',
  500: 'Internal Server Error',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
  508: 'Loop Detected',
} as const

export type ProblemParts = readonly [
  code: ProblemCode,
  status: keyof typeof TITLES,
  detail: string,
  more?: Pick<Problem, 'type' | 'extensions' | 'headers'>,
]

/** Makes a problem that has the title of its status. */
export function createProblem(...[code, status, detail, more]: ProblemParts): Problem {
  return { code, status, title: TITLES[status], detail, ...more }
}

/** An error response as `application/problem+json` (RFC 9457). No cache may keep it (RFC 6585 §4). */
export function createProblemResponse({ code, status, title, detail, type, extensions, headers }: Problem): Response {
  const body = { type: type ?? `/_sluice/errors#${code}`, title, status, detail, code, ...extensions }
  return new Response(`${JSON.stringify(body)}\n`, {
    status,
    headers: { 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store', ...headers },
  })
}

export const NOT_SERVED = createProblem('not_found', 404, 'Unknown Sluice endpoint.')

/** Retry-After (RFC 9110 §10.2.3) in whole seconds, rounded up, at least 1. */
export function formatRetryAfter(waitMs: number): { 'Retry-After': string } {
  return { 'Retry-After': String(Math.max(1, Math.ceil(waitMs / 1000))) }
}

/** A problem that passes by itself, or with less load. @param extensions of its own */
export function createTemporary(
  code: ProblemCode,
  status: 429 | 503,
  detail: string,
  waitMs: WholeMs,
  extensions?: Problem['extensions'],
): Problem {
  const type = status === 429 ? `${REGISTRY}#quota-exceeded` : `${REGISTRY}#temporary-reduced-capacity`
  const headers = formatRetryAfter(waitMs)
  return createProblem(code, status, detail, { type, extensions: { ...extensions, retry_after_ms: waitMs }, headers })
}

/** Targets that cannot be parsed, and paths that the upstream may read as other ones. */
export const TARGET_PROBLEMS: Readonly<Record<NoTarget | 'ambiguous', Problem>> = {
  malformed: createProblem('invalid_target', 400, 'Invalid request target or Host header.'),
  'too-long': createProblem('url_too_long', 414, 'URL too long.'),
  ambiguous: {
    code: 'ambiguous_path',
    status: 400,
    title: 'Ambiguous Target',
    detail:
      'Ambiguous path. Remove repeated slashes, ";" and encoded slashes, backslashes, control characters, "%", "?" ' +
      'and "#".',
  },
}
