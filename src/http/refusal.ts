import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import { formatWindow } from '../model/limits.ts'
import type { IdentitySource } from '../model/policy.ts'
import type { Refused, ReportedLimit } from '../model/verdict.ts'
import { describeSource } from '../request/identity/source.ts'
import {
  type Problem,
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
        detail: describeViolations(verdict.violated),
        extensions: {
          'violated-policies': verdict.violated.map(({ name }) => name),
          retry_after_ms: verdict.retryAfterMs,
          ...findPenalty(verdict.violated),
        },
        headers: retryAfter(verdict.retryAfterMs),
      })
    case 'deprioritized':
      return createUnavailable(
        'What is left of the capacity is reserved for more important requests.',
        verdict.retryAfterMs,
        { retry_after_ms: verdict.retryAfterMs },
      )
    case 'shed':
      return createUnavailable(
        'The API behind this gateway is overloaded, and more important requests go first.',
        verdict.retryAfterMs,
      )
    case 'unidentified':
      return problemResponse({
        status: verdict.status,
        title: verdict.status === 401 ? 'Unauthorized' : 'Caller Unknown',
        detail: `This API counts requests by ${verdict.policy.by.map(describeSource).join(' and ')}, and this one lacks it.`,
        ...(verdict.status === 401 && { headers: { 'WWW-Authenticate': formatChallenge(verdict.policy.by) } }),
      })
    case 'invalid_cost':
      return problemResponse({
        status: 400,
        title: 'Bad Request',
        detail: `The field ${verdict.header} must be an integer from 1 to ${verdict.max}.`,
      })
    case 'ambiguous_path':
      return problemResponse(TARGET_PROBLEMS.ambiguous)
    case 'blocked':
      return problemResponse({
        status: verdict.status,
        title: 'Blocked',
        detail: verdict.reason ?? 'Requests of this caller are not let in.',
      })
    case 'unavailable':
      return createUnavailable(
        'Limits cannot be checked at the moment, so no request is let through.',
        UNAVAILABLE_RETRY_MS,
      )
  }
}

function createUnavailable(detail: string, waitMs: number, extensions: Problem['extensions'] = {}): Response {
  return problemResponse({
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

function describeViolations(violated: readonly ReportedLimit[]): string {
  const limits = violated.map(describeLimit).join(' and ')
  if (violated.some(({ penaltyMs }) => penaltyMs !== undefined)) {
    return `Blocked for a while, for requests over the limit of ${limits}.`
  }
  const isForFailures = violated.every(({ policy }) => policy.counts === 'failures')
  return `${isForFailures ? 'Too many failed requests: over' : 'Over'} the limit of ${limits}.`
}

function describeLimit({ policy, limit, windowMs }: ReportedLimit): string {
  if (ALGORITHMS[policy.algorithm].holdsSlots) return `${limit} at once`
  return `${limit} ${policy.counts === 'failures' ? 'failures ' : ''}per ${formatWindow(windowMs)}`
}

/** RFC 9110 §15.5.2: a 401 must name a way to authenticate. No scheme is registered for keys in other headers. */
function formatChallenge(by: readonly IdentitySource[]): string {
  const isToken = (source: IdentitySource) => /^(?:the field )?authorization$|^claim$/i.test(describeSource(source))
  return by.some(isToken) ? 'Bearer' : 'APIKey'
}
