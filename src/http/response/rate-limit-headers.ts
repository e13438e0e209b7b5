/** The response headers that report limits, in each format. */

import { holdsSlots } from '../../core/algorithms/algorithm-table.ts'
import { COUNTS, type CountsEntry } from '../../core/model/limits.ts'
import { isEnforced, type Policy, type RequestPolicy } from '../../core/model/policy.ts'
import { type Degradation, type ReportedLimit, SLOT_RETRY_MS, type Verdict } from '../../core/model/verdict.ts'
import { listNames } from '../../core/runtime/lists.ts'

/** A policy, as far as headers report it. */
export type CountingPolicy = Policy & Pick<RequestPolicy, 'counts'> & Partial<Pick<RequestPolicy, 'actualCost'>>
type CountingLimit = ReportedLimit<CountingPolicy>

interface HeaderFields<Name extends string> {
  has(name: Name): boolean
  set(name: Name, value: string): unknown
  append(name: Name, value: string): unknown
}

interface Format<Name extends string> {
  /** Names of its headers. */
  readonly names: readonly Name[]
  /** Writes at least one limit. */
  write(headers: HeaderFields<Name>, limits: readonly CountingLimit[], now: () => number): void
}

/** Drafts of draft-ietf-httpapi-ratelimit-headers, the older `X-RateLimit` headers, or none. */
export const HEADER_FORMATS = {
  'draft-11': defineFormat({
    names: ['RateLimit', 'RateLimit-Policy'],
    write(headers, limits) {
      // Lists: values of the upstream about its own limits stay, and ours are appended.
      headers.append('RateLimit-Policy', joinItems(limits, formatPolicyItem))
      headers.append('RateLimit', joinItems(limits, formatLimitItem))
    },
  }),
  'draft-6': defineFormat({
    names: ['RateLimit-Policy', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'],
    write(headers, limits) {
      const reported = limits.filter(isAboutRequests)
      const tightest = selectTightestLimit(reported)
      if (!tightest) return
      addUnlessSent(headers, {
        'RateLimit-Policy': joinItems(reported, (status) => `${status.limit}${formatWindowParameter(status)}`),
        'RateLimit-Limit': String(tightest.limit),
        'RateLimit-Remaining': String(tightest.remaining),
        'RateLimit-Reset': String(toWholeSeconds(findResetMs(tightest))),
      })
    },
  }),
  'x-ratelimit': defineFormat({
    names: ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'],
    write(headers, limits, now) {
      const tightest = selectTightestLimit(limits.filter(isAboutRequests))
      if (!tightest) return
      addUnlessSent(headers, {
        'X-RateLimit-Limit': String(tightest.limit),
        'X-RateLimit-Remaining': String(tightest.remaining),
        // A Unix timestamp, as at GitHub and most others.
        'X-RateLimit-Reset': String(toWholeSeconds(findResetMs(tightest) + now())),
      })
    },
  }),
  off: defineFormat({ names: [], write() {} }),
}

export type HeaderFormat = keyof typeof HEADER_FORMATS

/** A format writes no other headers than it names. */
function defineFormat<Name extends string>(format: Format<Name>): Format<string> {
  return format
}

export function setRateLimitHeaders(
  headers: Pick<Headers, 'has' | 'set' | 'append'>,
  verdict: Verdict | { readonly limits: readonly CountingLimit[]; readonly degraded?: Degradation },
  headerFormat: HeaderFormat,
  now: () => number,
): void {
  const { degraded } = verdict
  // A limiter behind this one has decided last.
  if (degraded !== undefined && !headers.has('Sluice-Degraded')) headers.set('Sluice-Degraded', degraded)
  const limits = 'limits' in verdict ? selectReported(verdict.limits) : []
  if (limits.length > 0) HEADER_FORMATS[headerFormat].write(headers, limits, now)
}

/**
 * The older headers cannot name failures or slots: a client would take them for requests, which a refusal is about in any
 * case.
 */
function isAboutRequests(status: CountingLimit): boolean {
  return !(COUNTS[status.policy.counts].unit || holdsSlots(status.policy)) || isRefusing(status)
}

/** Finds the only limit that the older headers report: the one of the longest wait, else of the fewest remaining units. */
function selectTightestLimit(reported: readonly CountingLimit[]): CountingLimit | undefined {
  const [tightest] = reported.toSorted((a, b) => b.retryAfterMs - a.retryAfterMs || a.remaining - b.remaining)
  return tightest
}

/** Where limits are enforced, clients need not hold back for one that is only tried in shadow mode. */
function selectReported(limits: readonly CountingLimit[]): readonly CountingLimit[] {
  const enforced = limits.filter(({ policy }) => isEnforced(policy))
  return enforced.length > 0 ? enforced : limits
}

/** Without `map()` and `join()`, which take as long as formatting the items. */
function joinItems(limits: readonly CountingLimit[], format: (limit: CountingLimit) => string): string {
  let list = ''
  for (const limit of limits) list += list === '' ? format(limit) : `, ${format(limit)}`
  return list
}

/** draft-ietf-httpapi-ratelimit-headers-11, §3: `q` quota, `qu` unit if not requests, `w` window if it has one length. */
function formatPolicyItem(status: CountingLimit): string {
  const { name, limit } = status
  if (holdsSlots(status.policy)) return `"${name}";q=${limit};qu="concurrent-requests"`
  const unit = findUnit(status.policy)
  return `"${name}";q=${limit}${unit ? `;qu="${unit.inHeaders}"` : ''}${formatWindowParameter(status)}`
}

/** Same draft, §4: `r` remaining units, `t` seconds during which no more than these can be used. */
function formatLimitItem(status: CountingLimit): string {
  const { name, remaining, resetMs } = status
  // A slot may be released at any time.
  return `"${name}";r=${remaining}${holdsSlots(status.policy) ? '' : `;t=${toWholeSeconds(resetMs)}`}`
}

/**
 * Finds what a policy counts, if not requests. `content-bytes` is registered by the same draft (§9.3), and the others are
 * not, so that a client that does not know them does not take them for requests.
 */
export function findUnit({ counts, actualCost }: CountingPolicy): CountsEntry['unit'] {
  if (!actualCost) return COUNTS[counts].unit
  const [{ kind, weight } = { kind: 'header', weight: 1 }, ...others] = actualCost
  if (others.length > 0 || weight !== 1) return { noun: 'unit', inHeaders: 'units' }
  if (kind === 'ms') return { noun: 'millisecond', inHeaders: 'milliseconds' }
  return kind.startsWith('bytes') ? { noun: 'byte', inHeaders: 'content-bytes' } : { noun: 'unit', inHeaders: 'units' }
}

function isRefusing(status: CountingLimit): boolean {
  return isEnforced(status.policy) && status.retryAfterMs > 0
}

/** A refusal for want of a slot tells the same. */
function findResetMs(status: CountingLimit): number {
  return holdsSlots(status.policy) ? Math.min(status.resetMs, SLOT_RETRY_MS) : status.resetMs
}

/** Only whole seconds can be told, no month is as long as another, and slots have no window. */
function formatWindowParameter(status: CountingLimit): string {
  const { windowMs, calendar } = status
  return !holdsSlots(status.policy) && windowMs % 1000 === 0 && !calendar ? `;w=${windowMs / 1000}` : ''
}

function toWholeSeconds(ms: number): number {
  return Math.ceil(ms / 1000)
}

/** An upstream that sends these reports its own limits, and a second value would make both useless. */
function addUnlessSent<Name extends string>(headers: HeaderFields<Name>, fields: Readonly<Record<Name, string>>): void {
  const names = listNames(fields)
  if (names.some((name) => headers.has(name))) return
  for (const name of names) headers.set(name, fields[name])
}
