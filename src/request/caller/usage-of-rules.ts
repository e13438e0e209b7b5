import type { RequestCharge } from '../../model/charge.ts'
import type { Store } from '../../model/store.ts'

/** How one tier of one policy stands for a caller. */
export interface TierState {
  readonly policy: string
  readonly tier: string
  readonly route: string | null
  readonly key: string
  readonly limit: number
  readonly windowMs: number
  readonly used: number
  readonly left: number
  readonly resetMs: number
  readonly retryAfterMs: number
  /** Until when its policy refuses this caller, whatever is left: milliseconds since the Unix epoch; null if it does not. */
  readonly blockedUntilMs: number | null
}

export interface Usage {
  readonly nowMs: number
  readonly tiers: readonly TierState[]
}

/** Asks what every policy has counted, in one call that charges nothing. @throws {StoreError} */
export async function readUsage(store: Pick<Store, 'decide'>, charges: readonly RequestCharge[]): Promise<Usage> {
  if (charges.length === 0) return { nowMs: Date.now(), tiers: [] }
  const { nowMs, usage } = await store.decide({ mode: 'peek', permits: 1, rules: charges })
  const tiers = charges.flatMap((charge, index) =>
    charge.policy.tiers.map(({ name, windowMs, limit: byDefault }, at): TierState => {
      // By plan, a caller has limits of its own.
      const limit = charge.burst ?? charge.tiers[at]?.limit ?? byDefault
      const { remaining = limit, resetMs = 0, retryAfterMs = 0, blockedMs } = usage[index]?.[at] ?? {}
      const used = limit - remaining
      return {
        policy: charge.policy.name,
        tier: name,
        route: charge.route ?? null,
        key: charge.key,
        limit,
        windowMs,
        used,
        left: remaining,
        resetMs: used === 0 ? 0 : resetMs,
        retryAfterMs,
        blockedUntilMs: blockedMs === undefined ? null : nowMs + blockedMs,
      }
    }),
  )
  return { nowMs, tiers }
}
