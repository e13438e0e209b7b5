import type { StoreCharge } from '../model/charge.ts'
import type { Commit } from './algorithm.ts'
import { ALGORITHMS } from './algorithm-table.ts'
import { type ConcurrencyState, releaseSlot, renewSlot, revokeSlot } from './concurrency.ts'

/** A change to an earlier charge, which may or may not have reached the store. */
export type Correction =
  | { readonly kind: 'release' | 'revoke' | 'renew'; readonly charge: StoreCharge }
  | { readonly kind: 'settle'; readonly charge: StoreCharge; readonly units: number; readonly chargedAtMs: number }

/** @returns undefined if nothing changes */
export function applyCorrection(correction: Correction, state: unknown, nowUs: number): Commit<unknown> | undefined {
  const { kind, charge } = correction
  if (kind === 'settle') {
    const { units, chargedAtMs } = correction
    return ALGORITHMS[charge.algorithm].implementation.settle?.(state, charge, nowUs, chargedAtMs, units)
  }
  const held = state as ConcurrencyState | undefined
  const { slot = 0, limits } = charge
  const nowMs = Math.floor(nowUs / 1000)
  if (kind === 'revoke') return revokeSlot(held, slot, nowMs)
  if (!held) return undefined
  return kind === 'release' ? releaseSlot(held, slot) : renewSlot(held, slot, nowMs, limits[0]?.windowMs ?? 0)
}
