import type { NoTarget } from '../request/target.ts'

/** The registered problem types of draft-ietf-httpapi-ratelimit-headers-11, §6. */
const REGISTRY = 'https://iana.org/assignments/http-problem-types'
export const QUOTA_EXCEEDED = `${REGISTRY}#quota-exceeded`
export const TEMPORARY_REDUCED_CAPACITY = `${REGISTRY}#temporary-reduced-capacity`

export interface Problem {
  readonly status: number
  readonly title: string
  /** Text for people, without secrets or client input. */
  readonly detail: string
  /** A URI; default `about:blank`. */
  readonly type?: string
  readonly extensions?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string>>
}

/** An error response as `application/problem+json` (RFC 9457). No cache may keep it (RFC 6585 §4). */
export function problemResponse({ status, title, detail, type, extensions, headers }: Problem): Response {
  const body = { type: type ?? 'about:blank', title, status, detail, ...extensions }
  return new Response(`${JSON.stringify(body)}\n`, {
    status,
    headers: { 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store', ...headers },
  })
}

export const NOT_SERVED: Problem = { status: 404, title: 'Not Found', detail: 'Sluice serves nothing at this path.' }

/** Retry-After (RFC 9110 §10.2.3) in whole seconds, rounded up, at least 1. */
export function retryAfter(waitMs: number): { 'Retry-After': string } {
  return { 'Retry-After': String(Math.max(1, Math.ceil(waitMs / 1000))) }
}

/** Targets that cannot be parsed, and paths that the upstream may read as other ones. */
export const TARGET_PROBLEMS: Readonly<Record<NoTarget | 'ambiguous', Problem>> = {
  malformed: { status: 400, title: 'Bad Request', detail: 'Target and Host of the request make no URL.' },
  'too-long': { status: 414, title: 'URI Too Long', detail: 'The URL of the request is too long.' },
  ambiguous: {
    status: 400,
    title: 'Ambiguous Target',
    detail:
      'The path of this request can be read in more than one way. Write it without doubled slashes, without ";", and ' +
      'without escaped slashes, backslashes, control characters, "%", "?" and "#".',
  },
}
