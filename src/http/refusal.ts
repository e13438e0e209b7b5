import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import { formatWindow } from '../model/limits.ts'
import type { IdentitySource } from '../model/policy.ts'
import type { Refused, ReportedLimit } from '../model/verdict.ts'
import { describeSource } from '../request/identity/source.ts'
import {
  type Problem,
  type ProblemCode,
  problemResponse,
  QUOTA_EXCEEDED,
  retryAfter,
  TARGET_PROBLEMS,
  TEMPORARY_REDUCED_CAPACITY,
} from './problem.ts'

const UNAVAILABLE_RETRY_MS = 1_000

export function createRefusal(verdict: Refused): Response {
  switch (verdict.outcome) {
    case 'limited':
      return problemResponse({
        type: QUOTA_EXCEEDED,
        status: 429,
        title: 'Too Many Requests',
        ...describeViolations(verdict.violated),
        extensions: {
          'violated-policies': verdict.violated.map(({ name }) => name),
          retry_after_ms: verdict.retryAfterMs,
          ...findPenalty(verdict.violated),
        },
        headers: retryAfter(verdict.retryAfterMs),
      })
    case 'deprioritized':
      return createUnavailable(
        'deprioritized',
        'The remaining capacity is reserved for higher-priority requests.',
        verdict.retryAfterMs,
        { retry_after_ms: verdict.retryAfterMs },
      )
    case 'shed':
      return createUnavailable(
        'shed',
        'The upstream is overloaded; lower-priority requests are refused.',
        verdict.retryAfterMs,
      )
    case 'unidentified':
      return problemResponse({
        code: 'identity_missing',
        status: verdict.status,
        title: verdict.status === 401 ? 'Unauthorized' : 'Identity Required',
        detail: `Missing or ambiguous ${verdict.policy.by.map(describeSource).join(' and ')}, which this API requires.`,
        ...(verdict.status === 401 && { headers: { 'WWW-Authenticate': formatChallenge(verdict.policy.by) } }),
      })
    case 'invalid_cost':
      return problemResponse({
        code: 'invalid_cost',
        status: 400,
        title: 'Bad Request',
        detail: `The header ${verdict.header} must be an integer from 1 to ${verdict.max}.`,
      })
    case 'ambiguous_path':
      return problemResponse(TARGET_PROBLEMS.ambiguous)
    case 'blocked':
      return problemResponse({
        code: 'blocked',
        status: verdict.status,
        title: 'Blocked',
        detail: verdict.reason ?? 'Access denied.',
      })
    case 'unavailable':
      return createUnavailable(
        'store_unavailable',
        'Rate limits cannot be checked right now. Try again shortly.',
        UNAVAILABLE_RETRY_MS,
      )
  }
}

function createUnavailable(
  code: ProblemCode,
  detail: string,
  waitMs: number,
  extensions: Problem['extensions'] = {},
): Response {
  return problemResponse({
    code,
    type: TEMPORARY_REDUCED_CAPACITY,
    status: 503,
    title: 'Service Unavailable',
    detail,
    extensions,
    headers: retryAfter(waitMs),
  })
}

function findPenalty(violated: readonly ReportedLimit[]): { readonly penalty_ms?: number } {
  const penaltyMs = Math.max(...violated.map((limit) => limit.penaltyMs ?? 0))
  return penaltyMs > 0 ? { penalty_ms: penaltyMs } : {}
}

function describeViolations(violated: readonly ReportedLimit[]): Pick<Problem, 'code' | 'detail'> {
  const areFailures = violated.every(({ policy }) => policy.counts === 'failures')
  const limits = violated.map((limit) => describeLimit(limit, areFailures ? '' : ' requests')).join(' and ')
  if (violated.some(({ penaltyMs }) => penaltyMs !== undefined)) {
    const detail = `Temporarily refused after repeatedly exceeding the limit of ${limits}.`
    return { code: 'penalty_active', detail }
  }
  if (areFailures) {
    return { code: 'failure_limit_exceeded', detail: `Too many failed requests: the limit is ${limits}.` }
  }
  return { code: 'limit_exceeded', detail: `Rate limit exceeded: ${limits}.` }
}

function describeLimit({ policy, limit, windowMs, calendar }: ReportedLimit, unit: string): string {
  if (ALGORITHMS[policy.algorithm].holdsSlots) return `${limit} concurrent requests`
  return `${limit}${policy.counts === 'failures' ? ' failures' : unit} per ${calendar?.unit ?? formatWindow(windowMs)}`
}

/** RFC 9110 §15.5.2: a 401 must name a way to authenticate. No scheme is registered for keys in other headers. */
function formatChallenge(by: readonly IdentitySource[]): string {
  const isToken = (source: IdentitySource) => /^(?:the field )?authorization$|^claim$/i.test(describeSource(source))
  return by.some(isToken) ? 'Bearer' : 'APIKey'
}
