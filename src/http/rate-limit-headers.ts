import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import type { ReportedLimit } from '../model/verdict.ts'

/**
 * How limits are reported: as in draft 11 or draft 6 of draft-ietf-httpapi-ratelimit-headers, in the older
 * `X-RateLimit` fields, or not at all.
 */
export const DIALECTS = ['draft-11', 'draft-6', 'x-ratelimit', 'off'] as const
export type HeaderFormat = (typeof DIALECTS)[number]

/**
 * Adds what the tiers say to a response, in the configured dialect.
 * @param now milliseconds since the Unix epoch
 */
export function addRateLimitHeaders(
  headers: Pick<Headers, 'has' | 'set' | 'append'>,
  dialect: HeaderFormat,
  tiers: readonly ReportedLimit[],
  now: () => number,
): void {
  if (tiers.length === 0 || dialect === 'off') return
  if (dialect === 'draft-11') {
    // Lists: what the upstream said about its own limits stays, and ours is appended.
    headers.append('RateLimit-Policy', joinItems(tiers, policyItem))
    headers.append('RateLimit', joinItems(tiers, limitItem))
    return
  }
  // These fields have no word for failures, so a client would take them for requests. A refusal is about requests in
  // any case.
  const told = tiers.filter((tier) => !isOfFailures(tier) || tier.retryAfterMs > 0)
  const tightest = findTightest(told)
  if (!tightest) return
  switch (dialect) {
    case 'draft-6':
      addUnlessSent(headers, {
        'RateLimit-Policy': joinItems(told, ({ limit, windowMs }) => `${limit}${windowParameter(windowMs)}`),
        'RateLimit-Limit': String(tightest.limit),
        'RateLimit-Remaining': String(tightest.remaining),
        'RateLimit-Reset': String(wholeSeconds(tightest.resetMs)),
      })
      return
    case 'x-ratelimit':
      addUnlessSent(headers, {
        'X-RateLimit-Limit': String(tightest.limit),
        'X-RateLimit-Remaining': String(tightest.remaining),
        // Seconds since the Unix epoch, as GitHub and most others use it.
        'X-RateLimit-Reset': String(wholeSeconds(now() + tightest.resetMs)),
      })
      return
  }
}

/** Without `map()` and `join()`, which take as long as to write the items. */
function joinItems(tiers: readonly ReportedLimit[], itemOf: (tier: ReportedLimit) => string): string {
  let list = ''
  for (const tier of tiers) list += list === '' ? itemOf(tier) : `, ${itemOf(tier)}`
  return list
}

/**
 * draft-ietf-httpapi-ratelimit-headers-11, §3: `q` the quota, `qu` its unit if not requests, `w` the window, if it is
 * whole seconds.
 */
function policyItem(tier: ReportedLimit): string {
  const { name, limit, windowMs, policy } = tier
  if (ALGORITHMS[policy.algorithm].holdsSlots) return `"${name}";q=${limit};qu="concurrent-requests"`
  // Not a registered unit, so that a client that does not know it does not take it for one of those.
  const unit = isOfFailures(tier) ? ';qu="failed-requests"' : ''
  return `"${name}";q=${limit}${unit}${windowParameter(windowMs)}`
}

/** Same draft, §4: `r` units left, `t` seconds during which no more than these can be used. */
function limitItem({ name, remaining, resetMs, policy }: ReportedLimit): string {
  // A slot may be given back at any moment.
  const time = ALGORITHMS[policy.algorithm].holdsSlots ? '' : `;t=${wholeSeconds(resetMs)}`
  return `"${name}";r=${remaining}${time}`
}

function isOfFailures({ policy }: ReportedLimit): boolean {
  return policy.counts === 'failures'
}

/** The window, if it is whole seconds. */
function windowParameter(windowMs: number): string {
  return windowMs % 1000 === 0 ? `;w=${windowMs / 1000}` : ''
}

function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1000)
}

/** The tier to report if there is room for only one: the longest wait, else the fewest units left. */
function findTightest(tiers: readonly ReportedLimit[]): ReportedLimit | undefined {
  return tiers.toSorted((a, b) => b.retryAfterMs - a.retryAfterMs || a.remaining - b.remaining)[0]
}

/**
 * Fields with one value: an upstream that sends them reports its own limits, and a second value would make both
 * useless.
 */
function addUnlessSent(headers: Pick<Headers, 'has' | 'set'>, fields: Readonly<Record<string, string>>): void {
  const names = Object.keys(fields)
  if (names.some((name) => headers.has(name))) return
  for (const name of names) headers.set(name, fields[name] as string)
}
