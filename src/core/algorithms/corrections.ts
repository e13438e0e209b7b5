/** Applies a later change of a charge to a state: slots that are released, costs that are settled. */
import type { StoreCharge } from '../model/charge.ts'
import type { Commit } from './algorithm.ts'
import { ALGORITHMS } from './algorithm-table.ts'

/** A change to an earlier charge, which may or may not have reached the store. */
export type Correction =
  | { readonly kind: 'release' | 'revoke' | 'renew'; readonly charge: StoreCharge }
  | { readonly kind: 'settle'; readonly charge: StoreCharge; readonly units: number; readonly chargedAtMs: number }

/** @returns undefined if nothing changes */
export function applyCorrection(correction: Correction, state: unknown, nowUs: number): Commit<unknown> | undefined {
  const { kind, charge } = correction
  const { settle, slots } = ALGORITHMS[charge.algorithm].implementation
  if (kind === 'settle') {
    const { units, chargedAtMs } = correction
    return settle?.(state, charge, nowUs, chargedAtMs, units)
  }
  const { slot = 0, limits } = charge
  return slots?.[kind](state, slot, Math.floor(nowUs / 1000), limits[0]?.windowMs ?? 0)
}
