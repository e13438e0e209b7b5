/** Reports what has become of the descriptors, to the client and to metrics: the last step of a decision. */
import type { Degradation, ReportedLimit } from '../core/model/verdict.ts'
import type { Config } from '../http/config/load-config.ts'
import { type CountingPolicy, setRateLimitHeaders } from '../http/response/rate-limit-headers.ts'
import type { DescriptorOutcome } from './charge-descriptors.ts'
import type { HitCounts } from './hit-counts.ts'
import type { CountedDescriptor, MatchedRequest } from './match-descriptors.ts'
import { type DescriptorStatus, MAX_UINT32, type RateLimitUnit, UNITS } from './messages.ts'
import type { DescriptorLimit } from './rate-limits.ts'

type Reported = ReportedLimit<CountingPolicy>

export interface ReportOptions {
  readonly config: Pick<Config, 'headerFormat'>
  readonly now: () => number
  readonly counts: HitCounts
}

export function createReport({ config, now, counts }: ReportOptions) {
  /** @param outcomes of those that are counted, in order */
  return function reportRequest(
    { domain, size, unlimited, refused, counted }: MatchedRequest,
    outcomes: readonly DescriptorOutcome[],
    degraded: Degradation | undefined,
  ) {
    const statuses: DescriptorStatus[] = Array.from({ length: size }, () => ({ code: 'OK' }))
    for (const { index, rateLimit, metricKey, hits } of unlimited) {
      counts.record(domain, metricKey, { hits, fitting: hits, rateLimit })
      statuses[index] = { code: 'OK', limitRemaining: MAX_UINT32 }
    }
    for (const { index, rateLimit, metricKey, hits } of refused) {
      counts.record(domain, metricKey, { hits, fitting: 0, rateLimit })
      statuses[index] = refuseAll(rateLimit, now())
    }
    for (const [at, descriptor] of counted.entries()) {
      const { index, rateLimit, metricKey, hits } = descriptor
      const outcome = outcomes[at] as DescriptorOutcome
      const tightest = findTightest(outcome.limits)
      statuses[index] = toStatus(descriptor, outcome, tightest, now())
      if (hits > 0) counts.record(domain, metricKey, { hits, fitting: outcome.fitting, rateLimit, tightest })
    }
    const limits = outcomes.flatMap((outcome) => outcome.limits)
    const headers = new Headers()
    setRateLimitHeaders(
      headers,
      { limits: selectTightest(limits), ...(degraded && { degraded }) },
      config.headerFormat,
      now,
    )
    return { statuses, limits, headers }
  }
}

function compareTightness(a: Reported, b: Reported): number {
  return b.retryAfterMs - a.retryAfterMs || a.remaining - b.remaining
}

/** Finds the limit with the longest wait, else the one with the fewest units. */
function findTightest(limits: readonly Reported[]): Reported | undefined {
  return limits.toSorted(compareTightness)[0]
}

/** Selects one limit of each name, because a header cannot tell two users apart who are held to the same one. */
function selectTightest(limits: readonly Reported[]): readonly Reported[] {
  const byName = new Map<string, Reported>()
  for (const limit of limits) {
    const other = byName.get(limit.name)
    if (!other || compareTightness(limit, other) < 0) byName.set(limit.name, limit)
  }
  return [...byName.values()]
}

function toStatus(
  { rateLimit }: CountedDescriptor,
  { isFull }: DescriptorOutcome,
  tightest: Reported | undefined,
  nowMs: number,
): DescriptorStatus {
  const isOver = isFull && !rateLimit.isShadow
  const code = isOver ? 'OVER_LIMIT' : 'OK'
  if (!tightest) return { code }
  const { limit, windowMs, calendar, remaining, resetMs, retryAfterMs } = tightest
  const unit = calendar ? undefined : UNIT_BY_WINDOW.get(windowMs)
  // The charge took what remained, or there were more hits than the limit will ever admit at once.
  const waitMs = remaining === 0 ? resetMs : findLeftMs(windowMs, nowMs)
  return {
    code,
    currentLimit: { name: rateLimit.name, requestsPerUnit: limit, unit: unit ?? 'UNKNOWN' },
    limitRemaining: Math.min(remaining, MAX_UINT32),
    durationUntilReset: toDuration(isOver ? retryAfterMs || waitMs : resetMs),
  }
}

const UNIT_BY_WINDOW = new Map(
  Object.entries(UNITS).map(([name, { windowMs }]) => [windowMs as number, name as RateLimitUnit] as const),
)

function refuseAll({ name, unit, isShadow }: DescriptorLimit, nowMs: number): DescriptorStatus {
  return {
    code: isShadow ? 'OK' : 'OVER_LIMIT',
    currentLimit: { name, requestsPerUnit: 0, unit },
    limitRemaining: 0,
    durationUntilReset: toDuration(findLeftMs(unit === 'UNKNOWN' ? 1_000 : UNITS[unit].windowMs, nowMs)),
  }
}

/** Finds the time until a window of the clock ends: that is told where no wait helps, as the reference server does. */
function findLeftMs(windowMs: number, nowMs: number): number {
  return windowMs - (nowMs % windowMs)
}

function toDuration(ms: number) {
  return { seconds: Math.floor(ms / 1_000), nanos: Math.round((ms % 1_000) * 1_000_000) }
}
