/** Plans a call for permits: how many of each of its charges, and for how long. No I/O. */
import type { StoreCharge } from '../../model/charge.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import type { StatusCache } from '../refusals/status-cache.ts'
import type { LeaseAccount } from './lease-account.ts'
import { countPermits, findLeaseMs, findRoom, findUsableMs, type LeaseTerms } from './lease-size.ts'

/** A charge of a request, with the account of its identity. */
export interface LeasingCaller {
  readonly charge: StoreCharge
  readonly name: string
  readonly account: LeaseAccount
  readonly terms: LeaseTerms
  readonly nowMs: number
  readonly context: CallContext
  /** Its permits last for so long, while others are decided; 0 if it is decided alone, or no lease may be so long. */
  readonly keepMs: number
}

/** The store, as an isolate has seen it. */
export interface StoreView {
  readonly statuses: StatusCache
  readonly roundTripMs: number
  /** The most permits to take at once. */
  readonly maxPermits: number
}

/** The callers that a call is for, besides the requests that wait. */
export interface LeaseOrder {
  /** 1 if the request that makes the call needs a permit, too. */
  readonly own: 0 | 1
  /** Time for which that one must last. */
  readonly ownKeepMs: number
  /** Permits of each charge for requests to come. */
  readonly more: number
}

export interface LeasePlan {
  /** Permits for requests that are there. */
  readonly needed: number
  /** Time for which each permit must last when it is taken. */
  readonly keepMs: number
  /** 0: its permits are used at once. */
  readonly leaseMs: number
}

/** Counts the permits to take for requests to come: no more than any of the charges needs. */
export function countMore(callers: readonly LeasingCaller[], { statuses, roundTripMs, maxPermits }: StoreView): number {
  const counts = callers.map(({ charge, account, terms, nowMs, keepMs }) => {
    const { pace, used, expired } = account
    const use = { pace, used, expired, unused: account.countUnused(nowMs + keepMs) }
    const usableMs = findUsableMs(charge, statuses, terms.maxLeaseMs, nowMs) - keepMs
    return countPermits(findRoom(charge, statuses), use, usableMs, roundTripMs, maxPermits)
  })
  return Math.min(...counts)
}

/**
 * @param order its permits for requests to come are on their way in the accounts
 * @param waiting requests that wait for the call
 */
export function createPlan(
  callers: readonly LeasingCaller[],
  { own, ownKeepMs, more }: LeaseOrder,
  waiting: readonly { readonly keepMs: number }[],
  roundTripMs: number,
): LeasePlan {
  const kept = [...(more > 0 ? callers : [{ keepMs: ownKeepMs }]), ...waiting]
  const keepMs = Math.max(...kept.map((each) => each.keepMs))
  const neededMs = callers.map(({ account, terms, nowMs }) => {
    const total = more > 0 ? account.countUnused(nowMs) : 0
    return findLeaseMs(total, account.pace, roundTripMs, keepMs, terms)
  })
  // No lease is longer than the windows of its charge allow, nor than those of the others.
  const maxMs = Math.min(...callers.map(({ terms }) => terms.maxLeaseMs))
  const leaseMs = more > 0 || keepMs > 0 ? Math.min(maxMs, Math.max(...neededMs)) : 0
  return { needed: own + waiting.length, keepMs, leaseMs }
}
