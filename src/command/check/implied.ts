/** Finds limits that never refuse, because another one always does so before. */
import { ALGORITHMS } from '../../core/algorithms/algorithm-table.ts'
import { countsEveryRequest, type Limit } from '../../core/model/limits.ts'
import { isEnforced, type Pattern, type RequestPolicy } from '../../core/model/policy.ts'
import type { Config } from '../../http/config/load-config.ts'
import { EVERY_REQUEST } from '../../http/request/policy/policy-finder.ts'
import { locatePolicy } from '../settings/locate.ts'
import type { Settings } from '../settings/settings.ts'
import type { Finding } from './finding.ts'

export function* findImplied({ policies }: Config, settings: Settings): Iterable<Finding> {
  for (const policy of policies) {
    if (policy.limits.length === 0 || !countsEveryRequest(policy.counts)) continue
    const at = locatePolicy(settings, policy, 'limits')
    const stronger = policies.find((other) => other !== policy && implies(other, policy))
    // If two imply each other, the first one is kept.
    const isKept = stronger && policies.indexOf(stronger) > policies.indexOf(policy) && implies(policy, stronger)
    if (stronger && !isKept) {
      const reason = `policy "${stronger.name}" applies to all of its requests and refuses before it does`
      const message = `policy "${policy.name}" never refuses: ${reason}`
      yield { code: 'implied-policy', message, hint: 'Omit it, or make its limits lower.', at }
      continue
    }
    for (const each of policy.limits) {
      const lower = policy.limits.find(
        (other) => other !== each && countUnits(policy, other, each.windowMs) <= each.limit,
      )
      if (!lower) continue
      const reason = `lets at most ${countUnits(policy, lower, each.windowMs)} units pass in that time`
      const message = `the limit ${each.name} (${each.limit}) never refuses: ${lower.name} (${lower.limit}) ${reason}`
      yield { code: 'implied-limit', message, hint: 'Omit it, or make it lower.', at }
    }
  }
}

/** Maximum of units that a limit admits in any window of this length of the same algorithm. */
function countUnits({ algorithm }: RequestPolicy, { limit, windowMs, calendar }: Limit, spanMs: number): number {
  const { windows } = ALGORITHMS[algorithm]
  // A window of the calendar may be shorter, so that there are more.
  if (!windows || calendar) return Number.POSITIVE_INFINITY
  // Windows that are aligned to the clock may make up the whole of the span; those that begin with a unit may not.
  const isDivided = windows === 'aligned' && Math.max(spanMs, windowMs) % Math.min(spanMs, windowMs) === 0
  const overlapped = Math.ceil(spanMs / windowMs) + (windows === 'every' || isDivided ? 0 : 1)
  return overlapped * limit
}

/** The other policy admits nothing that this one would refuse. */
function implies(other: RequestPolicy, policy: RequestPolicy): boolean {
  if (policy.cost.kind !== 'fixed' || other.cost.kind !== 'fixed') return false
  const { units } = policy.cost
  const { units: otherUnits } = other.cost
  const isImplied = (own: Limit) =>
    other.limits.some(({ limit, windowMs }) => {
      const requests = Math.ceil(own.windowMs / windowMs) * Math.floor(limit / otherUnits)
      return requests * units <= own.limit
    })
  return isStronger(other, policy) && policy.limits.every(isImplied)
}

/** The other policy is exact, applies to all requests of this one, and counts callers together or as this one does. */
function isStronger(other: RequestPolicy, policy: RequestPolicy): boolean {
  const isExact = ALGORITHMS[other.algorithm].windows === 'every'
  // A policy with a reserve refuses some requests before its limit is reached.
  const isWindow = ALGORITHMS[policy.algorithm].windows !== undefined && policy.reserved.sheddable === 0
  // A shadow policy is a trial, and settlement may change a cost to anything.
  const isPlain = [policy, other].every(
    (each) => isEnforced(each) && countsEveryRequest(each.counts) && each.actualCost === undefined,
  )
  const isCoarser = other.by.every((source) => source.kind === 'global' || policy.by.some((own) => isSame(own, source)))
  const isAlike = other.anonymous.kind === policy.anonymous.kind && other.onStoreError === policy.onStoreError
  const isAsCoarse = policy.fold === undefined || other.fold === policy.fold
  return isAsCoarse && isExact && isWindow && isPlain && isCoarser && isAlike && coversAll(other, policy)
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

function coversAll(other: RequestPolicy, policy: RequestPolicy): boolean {
  // A policy by route counts each of its patterns separately.
  if (other.by.some(({ kind }) => kind === 'route')) return isSame(other.match, policy.match)
  const wide = other.match ?? [EVERY_REQUEST]
  const ignoresCase = policy.ignoresCase && !other.ignoresCase
  return (policy.match ?? [EVERY_REQUEST]).every((pattern) => wide.some((each) => covers(each, pattern, ignoresCase)))
}

/** True if all that matches the other pattern, in any case with `ignoresCase`, certainly matches this one. */
export function covers(pattern: Pattern, other: Pattern, ignoresCase = false): boolean {
  const hasMethod =
    pattern.method === '*' || pattern.method === other.method || (pattern.method === 'GET' && other.method === 'HEAD')
  if (!hasMethod) return false
  const [segments, isOpen] = splitSegments(pattern)
  const [others, isOtherOpen] = splitSegments(other)
  const isLongEnough = isOpen ? others.length >= segments.length : !isOtherOpen && others.length === segments.length
  return isLongEnough && segments.every((segment, at) => coversSegment(segment, others[at] ?? '', ignoresCase))
}

function splitSegments({ path }: Pattern): readonly [readonly string[], boolean] {
  const segments = path.split('/').slice(1)
  return segments.at(-1) === '*' ? [segments.slice(0, -1), true] : [segments, false]
}

function coversSegment(segment: string, other: string, ignoresCase: boolean): boolean {
  // Only the path "/" has an empty segment, which is no parameter.
  if (segment === '*' || segment.startsWith(':')) return other !== ''
  if (ignoresCase || other === '*' || other.startsWith(':')) return false
  if (segment === other) return true
  return segment.endsWith('.*') && (other === segment.slice(0, -2) || other.startsWith(segment.slice(0, -1)))
}

export function formatPattern({ method, path }: Pattern): string {
  return `${method} ${path}`
}
