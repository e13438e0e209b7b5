import type { NoTarget } from '../request/target.ts'

/** The type of problems where no page explains them (RFC 9457 §4.2.1). */
export const NO_PAGE = 'about:blank'

/** The registered problem types of draft-ietf-httpapi-ratelimit-headers-11, §6. */
const REGISTRY = 'https://iana.org/assignments/http-problem-types'
export const QUOTA_EXCEEDED = `${REGISTRY}#quota-exceeded`
export const TEMPORARY_REDUCED_CAPACITY = `${REGISTRY}#temporary-reduced-capacity`

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

/** An error response as `application/problem+json` (RFC 9457). No cache may keep it (RFC 6585 §4). */
export function createProblemResponse({ code, status, title, detail, type, extensions, headers }: Problem): Response {
  const body = { type: type ?? `/_sluice/errors#${code}`, title, status, detail, code, ...extensions }
  return new Response(`${JSON.stringify(body)}\n`, {
    status,
    headers: { 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store', ...headers },
  })
}

export const NOT_SERVED: Problem = {
  code: 'not_found',
  status: 404,
  title: 'Not Found',
  detail: 'Unknown Sluice endpoint.',
}

/** Retry-After (RFC 9110 §10.2.3) in whole seconds, rounded up, at least 1. */
export function formatRetryAfter(waitMs: number): { 'Retry-After': string } {
  return { 'Retry-After': String(Math.max(1, Math.ceil(waitMs / 1000))) }
}

/** Targets that cannot be parsed, and paths that the upstream may read as other ones. */
export const TARGET_PROBLEMS: Readonly<Record<NoTarget | 'ambiguous', Problem>> = {
  malformed: {
    code: 'invalid_target',
    status: 400,
    title: 'Bad Request',
    detail: 'Invalid request target or Host header.',
  },
  'too-long': { code: 'url_too_long', status: 414, title: 'URI Too Long', detail: 'URL too long.' },
  ambiguous: {
    code: 'ambiguous_path',
    status: 400,
    title: 'Ambiguous Target',
    detail:
      'Ambiguous path. Remove repeated slashes, ";" and encoded slashes, backslashes, control characters, "%", "?" ' +
      'and "#".',
  },
}
