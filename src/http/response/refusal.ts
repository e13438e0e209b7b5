/** Makes the response of a refusal. */

import { holdsSlots } from '../../core/algorithms/algorithm-table.ts'
import { describeSource, formatSource, type IdentitySource, isInBody } from '../../core/model/identity-source.ts'
import { formatWindow } from '../../core/model/limits.ts'
import type { REFUSAL_STATUSES, RefusalSettings, RequestPolicy } from '../../core/model/policy.ts'
import { type Refused, type ReportedLimit, toWholeMs } from '../../core/model/verdict.ts'
import {
  createProblem,
  createProblemResponse,
  createTemporary,
  formatRetryAfter,
  type Problem,
  TARGET_PROBLEMS,
} from './problem.ts'
import { findUnit } from './rate-limit-headers.ts'

type Limited = Extract<Refused, { readonly violated: unknown }>

const UNAVAILABLE_RETRY_MS = toWholeMs(1_000)

/** Styles and pictures, and nothing that runs or could send anything. */
const PAGE = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy':
    "default-src 'none'; style-src 'unsafe-inline'; img-src https: data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Cache-Control': 'no-store',
}

/**
 * @param headers those of the request, of which `Accept` is read if a policy has a page
 * @param otherType type of problems that have no registered one; left out: a reference to the gateway's own page
 */
export function createRefusal(verdict: Refused, headers?: Pick<Headers, 'get'>, otherType?: string): Response {
  const problem = { ...(otherType !== undefined && { type: otherType }), ...describeRefusal(verdict) }
  if (!('violated' in verdict)) return createProblemResponse(problem)
  const refusal = findSettings(verdict)
  if (!refusal) return createProblemResponse(problem)
  const wait = formatRetryAfter(verdict.retryAfterMs)
  // Only a number is put into its texts.
  const fill = (text: string) => text.replaceAll('{retry_after}', wait['Retry-After'])
  const { type, detail = problem.detail, html, redirect } = refusal
  const status = findStatus(verdict)
  if ((html ?? redirect) !== undefined && prefersHtml(headers?.get('Accept') ?? '')) {
    const fields = { ...PAGE, ...wait, ...(redirect !== undefined && { Location: redirect }) }
    return new Response(fill(html ?? ''), { status: redirect === undefined ? status : 303, headers: fields })
  }
  const own = createProblem(problem.code, status, fill(detail))
  return createProblemResponse({ ...problem, ...own, ...(type && { type }) })
}

function findSettings({ violated }: Limited): RefusalSettings | undefined {
  return violated.find(({ policy }) => policy.refusal)?.policy.refusal
}

/** Finds the status of a refusal for a limit. */
export function findStatus(verdict: Limited): (typeof REFUSAL_STATUSES)[number] {
  return findSettings(verdict)?.status ?? (verdict.outcome === 'limited' ? 429 : 503)
}

function describeRefusal(verdict: Refused): Problem {
  switch (verdict.outcome) {
    case 'limited': {
      const { violated, retryAfterMs } = verdict
      const { code, detail } = describeViolations(violated)
      const names = violated.map(({ name }) => name)
      return createTemporary(code, 429, detail, retryAfterMs, { 'violated-policies': names, ...findPenalty(violated) })
    }
    case 'deprioritized': {
      const { retryAfterMs } = verdict
      const detail = 'The remaining capacity is reserved for higher-priority requests.'
      return createTemporary('deprioritized', 503, detail, retryAfterMs)
    }
    case 'shed': {
      const detail = 'The upstream is overloaded; lower-priority requests are refused.'
      return createTemporary('shed', 503, detail, verdict.retryAfterMs)
    }
    case 'unidentified':
      return {
        code: 'identity_missing',
        status: verdict.status,
        title: verdict.status === 401 ? 'Unauthorized' : 'Identity Required',
        detail: `Missing or ambiguous: ${verdict.policy.by.map(describeSource).join(', ')}.${describeBodies(verdict.policy)}`,
        ...(verdict.status === 401 && { headers: { 'WWW-Authenticate': formatChallenge(verdict.policy.by) } }),
      }
    case 'invalid_cost': {
      const { status, header, max } = verdict
      const detail =
        status === 413
          ? `The request costs more than the ${max} units that one may cost.`
          : `The header ${header} must be an integer from 1 to ${max}.`
      return createProblem('invalid_cost', status, detail, { extensions: { max_cost: max } })
    }
    case 'ambiguous_path':
      return TARGET_PROBLEMS.ambiguous
    case 'blocked':
      return { code: 'blocked', status: verdict.status, title: 'Blocked', detail: verdict.reason ?? 'Access denied.' }
    case 'unavailable': {
      const detail = 'Rate limits cannot be checked right now. Try again shortly.'
      return createTemporary('store_unavailable', 503, detail, UNAVAILABLE_RETRY_MS)
    }
  }
}

function describeBodies({ by }: RequestPolicy): string {
  return by.some(isInBody) ? ' Of a body, 8 KiB are read; of JSON, 256 KiB.' : ''
}

/** Browsers prefer it when they navigate; `fetch`, `curl` and most clients take anything (RFC 9110 §12.5.1). */
function prefersHtml(accept: string): boolean {
  const qualities = new Map(
    accept.split(',').map((range) => {
      const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
      const quality = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1'
      return [type, /^(?:0(?:\.\d*)?|1(?:\.0*)?)$/.test(quality) ? Number(quality) : 0]
    }),
  )
  const readQuality = (...types: readonly string[]) =>
    types.map((type) => qualities.get(type)).find((quality) => quality !== undefined) ?? 0
  const ofJson = ['application/problem+json', 'application/json'].map((type) =>
    readQuality(type, 'application/*', '*/*'),
  )
  return readQuality('text/html', 'text/*', '*/*') > Math.max(...ofJson)
}

function findPenalty(violated: readonly ReportedLimit[]): { readonly penalty_ms?: number } {
  const penaltyMs = Math.max(...violated.map((limit) => limit.penaltyMs ?? 0))
  return penaltyMs > 0 ? { penalty_ms: penaltyMs } : {}
}

function describeViolations(violated: readonly ReportedLimit[]): Pick<Problem, 'code' | 'detail'> {
  const areFailures = violated.every(({ policy }) => policy.counts === 'failures')
  const limits = violated.map(describeLimit).join(' and ')
  if (violated.some(({ penaltyMs }) => penaltyMs !== undefined)) {
    const detail = `Temporarily refused after repeatedly exceeding the limit of ${limits}.`
    return { code: 'penalty_active', detail }
  }
  if (areFailures) {
    return { code: 'failure_limit_exceeded', detail: `Too many failed requests: the limit is ${limits}.` }
  }
  return { code: 'limit_exceeded', detail: `Rate limit exceeded: ${limits}.` }
}

function describeLimit({ policy, limit, windowMs, calendar }: ReportedLimit): string {
  const { cost } = policy
  const isOfSlots = holdsSlots(policy)
  const isOneEach = cost.kind === 'fixed' && cost.units === 1
  const unit = findUnit(policy)?.noun ?? (isOneEach || isOfSlots ? 'request' : 'unit')
  const units = limit === 1 ? unit : `${unit}s`
  return isOfSlots
    ? `${limit} concurrent ${units}`
    : `${limit} ${units} per ${calendar?.unit ?? formatWindow(windowMs)}`
}

/** RFC 9110 §15.5.2: a 401 must name a way to authenticate. No scheme is registered for keys in other headers. */
function formatChallenge(by: readonly IdentitySource[]): string {
  const isToken = (source: IdentitySource) =>
    source.kind === 'token' || source.kind === 'claim' || formatSource(source) === 'header:authorization'
  return by.some(isToken) ? 'Bearer' : 'APIKey'
}
