/**
 * Same as `lua/token-bucket.lua`: a bucket that is refilled continuously. Only the time when it is full again is stored.
 * The units that it lacks now are those that the rate refills until then, and to take units puts that time off. So
 * nothing has to be refilled, and a full bucket needs no state. The time has a fraction of a microsecond, because what
 * rounding loses would add up to units.
 */

import type { StoreCharge } from '../model/charge.ts'
import type { Algorithm, Commit, PenaltyState } from './algorithm.ts'
import { createLimitState, getOnlyLimit } from './algorithm.ts'

/** Full again at `us` + `fraction` / `limit` microseconds since the Unix epoch, at a rate of `limit` a window. */
export interface TokenBucketState {
  readonly us: number
  readonly fraction: number
  readonly limit: number
  readonly windowUs: number
  readonly penalty?: PenaltyState | undefined
}

export const tokenBucket: Algorithm<TokenBucketState> = {
  peek(state, charge, nowUs, wanted) {
    const { windowMs } = getOnlyLimit(charge)
    const burst = readBurst(charge)
    const bucket = findBucket(state, charge, nowUs)
    const lack = countLack(bucket, burst, nowUs)
    const freedAfterMs = (units: number) => Math.ceil((findUsOfLack(bucket, lack - units) - nowUs) / 1000)
    const limit = createLimitState(
      { limit: burst, windowMs, used: lack, resetMs: freedAfterMs(1), freedAfterMs },
      wanted,
    )
    return { usage: [limit], penalty: state?.penalty }
  },

  commit(state, charge, nowUs, units, leaseMs = 0, penalty) {
    const known = findBucket(state, charge, nowUs)
    if (penalty) return putOff(known, 0, nowUs, penalty)
    const full = createFull(charge, nowUs)
    const isSameRate = known.limit === full.limit && known.windowUs === full.windowUs
    // Missing units carry over to another rate as whole units, rounded up: none is given away.
    const bucket = isSameRate ? known : full
    const lack = isSameRate && leaseMs === 0 ? 0 : countLack(known, readBurst(charge), nowUs)
    const forfeited = countRefilled(leaseMs, lack, full)
    const owed = units + forfeited + (isSameRate ? 0 : lack)
    return { ...putOff(bucket, owed * bucket.windowUs, nowUs, state?.penalty), forfeited }
  },

  settle(state, charge, nowUs, chargedAtMs, units) {
    const { windowMs, limit } = getOnlyLimit(charge)
    if (units > 0) {
      if (state) return putOff(state, units * state.windowUs, nowUs, state.penalty)
      // Of a bucket that is full again, or was deleted, nothing is left: it is as if this charge had been its first.
      const full = createFull(charge, (chargedAtMs + 1) * 1000)
      const owed = charge.cost + units
      const isRefilled = full.us + (owed * full.windowUs) / limit <= nowUs
      return isRefilled ? undefined : putOff(full, owed * full.windowUs, nowUs, undefined)
    }
    // Full again: the charge has been refilled.
    if (!state || findUsOfLack(state, 0) <= nowUs) return undefined
    // Units that may have been refilled since the charge, at its rate or another, must not be refunded once more.
    const rate = Math.max(state.limit, Math.ceil((limit * state.windowUs) / (windowMs * 1000)))
    const refilled = Math.max(0, nowUs - chargedAtMs * 1000) * rate
    return putOff(state, Math.min(0, units * state.windowUs + refilled), nowUs, state.penalty)
  },
}

/**
 * Units that are refilled while a lease lasts, as far as the bucket has room for them: the units of the lease may be used
 * at its end, which must leave no more in the bucket than if they had been taken then.
 */
function countRefilled(leaseMs: number, lack: number, { limit, windowUs }: TokenBucketState): number {
  return Math.max(0, Math.ceil((leaseMs * 1000 * limit) / windowUs) - Math.max(0, lack - 1))
}

/** Moves the time when the bucket is full. @param owed units times the window in µs, below 0 to refund */
export function putOff(
  bucket: TokenBucketState,
  owed: number,
  nowUs: number,
  penalty: PenaltyState | undefined,
): Commit<TokenBucketState> {
  const nowMs = Math.floor(nowUs / 1000)
  const numerator = owed + bucket.fraction
  // Not -0.
  const remainder = (numerator % bucket.limit) + 0
  const fraction = remainder < 0 ? remainder + bucket.limit : remainder
  const us = bucket.us + (numerator - fraction) / bucket.limit
  const fullMs = Math.ceil((us + (fraction > 0 ? 1 : 0)) / 1000)
  const kept = penalty && penalty.untilMs > nowMs ? penalty : undefined
  return { state: { ...bucket, us, fraction, penalty: kept }, ttlMs: Math.max(fullMs, kept?.untilMs ?? 0) - nowMs }
}

function readBurst(charge: StoreCharge): number {
  return charge.burst ?? getOnlyLimit(charge).limit
}

function createFull(charge: StoreCharge, nowUs: number): TokenBucketState {
  const { limit, windowMs } = getOnlyLimit(charge)
  return { us: nowUs, fraction: 0, limit, windowUs: windowMs * 1000 }
}

function findBucket(state: TokenBucketState | undefined, charge: StoreCharge, nowUs: number): TokenBucketState {
  return state && findUsOfLack(state, 0) > nowUs ? state : createFull(charge, nowUs)
}

/** The first microsecond at which the bucket lacks no more than `units` of being full. */
function findUsOfLack(bucket: TokenBucketState, units: number): number {
  const numerator = units * bucket.windowUs
  const fraction = numerator % bucket.limit
  const us = bucket.us - (numerator - fraction) / bucket.limit
  return bucket.fraction > fraction ? us + 1 : us
}

/** Whole units that the bucket lacks of `burst`, rounded up. */
function countLack(bucket: TokenBucketState, burst: number, nowUs: number): number {
  // After the clock went back or the burst was lowered, it may lack more than it holds; the product below is then not
  // exact.
  if (findUsOfLack(bucket, burst - 1) > nowUs) return burst
  return Math.ceil(((bucket.us - nowUs) * bucket.limit + bucket.fraction) / bucket.windowUs)
}
