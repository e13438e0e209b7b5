/** Scales limits to what one isolate allows by itself while the store gives no answer. */
import type { StoreCharge } from '../model/charge.ts'

/**
 * Scales limits to what one isolate allows by itself: rounded down, but never below what one request needs.
 * @param share above 0 and at most 1
 */
export function scaleToLocalShare<C extends StoreCharge>(charge: C, share: number): C {
  if (share === 1) return charge
  const reserved = Math.floor(charge.reserved * share)
  const part = (units: number) => Math.max(Math.floor(units * share), charge.cost + reserved)
  const limits = charge.limits.map((each) => ({ ...each, limit: part(each.limit) }))
  return { ...charge, limits, reserved, ...(charge.burst !== undefined && { burst: part(charge.burst) }) }
}
