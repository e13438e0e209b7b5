/** Applies overrides to policies. */
import { ALGORITHMS } from '../../core/algorithms/algorithm-table.ts'
import type { RequestCharge, StoreCharge } from '../../core/model/charge.ts'
import type { Limit } from '../../core/model/limits.ts'
import type { PolicyLimit, RequestPolicy } from '../../core/model/policy.ts'
import { readCalendarLimits } from '../../core/options/calendar.ts'
import { MAX_BUCKET, MAX_LOG_ENTRIES, readLimits } from '../../core/options/read-limits.ts'
import type { Override } from './document.ts'

export function applyOverrides(
  charges: readonly RequestCharge[],
  isAllowed: boolean,
  overrides: readonly Override[],
): readonly RequestCharge[] {
  if (isAllowed) return charges.map(withoutLimit)
  if (overrides.length === 0) return charges
  return charges.map((charge) => {
    for (const override of overrides) {
      if (override.unlimited) {
        if (override.policies?.includes(charge.policy.name) ?? true) return withoutLimit(charge)
        continue
      }
      const resolved = resolveOverride(override, charge.policy, charge.limits)
      if (resolved && 'limits' in resolved) return withLimits(charge, resolved.limits)
    }
    return charge
  })
}

/** Penalties end, too, even those that began before. */
function withoutLimit({ penalty: _, ...charge }: RequestCharge): RequestCharge {
  return { ...charge, mode: 'shadow', isUnlimited: true }
}

export type ResolvedOverride = { readonly limits: readonly Limit[] } | { readonly expected: string }

/** @param base limits of the policy, or of a plan @returns undefined if it is not about this policy */
export function resolveOverride(
  override: Override,
  policy: RequestPolicy,
  base: readonly Limit[],
): ResolvedOverride | undefined {
  const { limits, multiplier = 1, policies } = override
  const text = limits && (Object.hasOwn(limits, policy.name) ? limits[policy.name] : undefined)
  const isAbout = limits ? text !== undefined : (policies?.includes(policy.name) ?? true)
  if (!isAbout || base.length === 0) return undefined
  const multiply = (limit: number) => Math.max(1, Math.floor(limit * multiplier))
  const multiplied = base.map((own) => ({ ...own, limit: multiply(own.limit) }))
  const read = text === undefined ? { limits: multiplied } : readOverride(text, policy, base)
  return 'expected' in read ? read : checkFit(read.limits, policy, base)
}

/** Units that are counted already count for the other limits too. */
function withLimits<C extends StoreCharge>(charge: C, limits: readonly Limit[]): C {
  const factor = (limits[0]?.limit ?? 1) / (charge.limits[0]?.limit ?? 1)
  const { burst, reserved, plan } = charge
  return {
    ...charge,
    limits,
    reserved: Math.ceil(reserved * factor),
    ...(burst !== undefined && { burst: scaleBurst(burst, factor) }),
    // What is cached for its old limits does not hold for these.
    plan: `${plan ?? ''} =${limits.map(({ limit }) => limit)}`,
  }
}

function scaleBurst(burst: number, factor: number): number {
  return Math.max(1, Math.floor(burst * factor))
}

function readOverride(text: string, policy: RequestPolicy, base: readonly Limit[]): ResolvedOverride {
  const { name, algorithm } = policy
  const fail = (_: string, expected: string) => {
    throw new RangeError(expected)
  }
  const joinNames = (limits: readonly PolicyLimit[]) => limits.map(({ name }) => name).join()
  try {
    const { limits } = readLimits({ name, algorithm, limits: text, allowLargeLog: true }, fail, readCalendarLimits)
    return joinNames(limits) === joinNames(policy.limits)
      ? { limits: base.map((own, at) => ({ ...own, limit: limits[at]?.limit ?? 1 })) }
      : { expected: 'the same windows as those of the policy' }
  } catch (error) {
    if (error instanceof RangeError) return { expected: error.message }
    throw error
  }
}

const MAX_LIMIT = 1_000_000_000_000

/** A cost that can never fit would be refused for ever. */
function checkFit(overridden: readonly Limit[], policy: RequestPolicy, limits: readonly Limit[]): ResolvedOverride {
  const { algorithm, cost, reserved, burst } = policy
  const { isLog, hasBurst } = ALGORITHMS[algorithm]
  const factor = (overridden[0]?.limit ?? 1) / (limits[0]?.limit ?? 1)
  const largest = Math.max(...overridden.map(({ limit }) => limit))
  const before = Math.max(...limits.map(({ limit }) => limit))
  if (isLog && largest > Math.max(MAX_LOG_ENTRIES, before)) {
    return { expected: `limits up to ${Math.max(MAX_LOG_ENTRIES, before)}` }
  }
  const bucket = burst === undefined ? largest : scaleBurst(burst, factor)
  const max = hasBurst ? Math.floor(MAX_BUCKET / ((overridden[0]?.windowMs ?? 1) * 1000)) : MAX_LIMIT
  if (Math.max(largest, bucket) > max) return { expected: `limits up to ${max}` }
  const maxCost = (cost.kind === 'fixed' ? cost.units : cost.max) + Math.ceil(reserved.sheddable * factor)
  const smallest = Math.min(...overridden.map(({ limit }) => limit), hasBurst ? bucket : Number.POSITIVE_INFINITY)
  return smallest < maxCost
    ? { expected: `limits from ${maxCost}, the highest cost of a request` }
    : { limits: overridden }
}
