/**
 * Takes what an identity is about to need in one call, and lets its next requests through without a call, as long as that
 * is a small share of what is left. Either the store counts a leased permit as if it were used when the lease ends, or the
 * lease ends with the windows that it is charged to: so no true window ever holds more than its limit. Permits not used by
 * then expire, and count all the same.
 *
 * The unit is a charge: a request with several takes a permit for each that is leased. `leased-decision.ts` decides it.
 * `leasing.ts` knows the accounts of all identities, each of which holds permits (`lease-account.ts`) and the requests that
 * share a call (`shared-calls.ts`). `lease-call.ts` makes one call, as `lease-plan.ts` and `lease-size.ts` plan it, by the
 * clock of `lease-clock.ts`.
 */

import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import { ACTIONS, type Decision, type DecisionRequest, type StoreCharge } from '../../model/charge.ts'
import { countsEveryRequest } from '../../model/limits.ts'
import { isEnforced } from '../../model/policy.ts'
import type { Store } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import type { RefusalCachingStore } from '../refusals/refusal-cache.ts'
import { decorate } from '../stages/stage.ts'
import { LeasedDecision } from './leased-decision.ts'
import { type LeaseParts, Leasing } from './leasing.ts'

/** The most permits to take at once; `auto` takes as many as a caller is about to need. */
export type LeaseSize = number | 'auto'

export function withLeases(size: LeaseSize): (store: RefusalCachingStore, parts: LeaseParts) => Store {
  return (store, parts) => {
    const leasing = new Leasing(store, size === 'auto' ? Number.POSITIVE_INFINITY : size, parts)
    return decorate(store, {
      decide: (request, context) => decide(leasing, request, context),
      settle: (differences, chargedAtMs) => leasing.settle(differences, chargedAtMs),
      async delete(keys) {
        await store.delete(keys)
        leasing.clock.endLeases()
      },
    })
  }
}

/** @throws {StoreError} it is then unknown if a lease was charged */
function decide(leasing: Leasing, request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
  const { action, permits, charges } = request
  if (!ACTIONS[action].charges) return leasing.store.decide(request, context)
  if (!context || action !== 'take' || permits !== 1 || !charges.some(canLease)) return leasing.ask(request, context)
  const nowMs = leasing.clock.read()
  const timeoutMs = charges.length === 1 ? 0 : leasing.timeoutMs
  const callers = charges.filter(canLease).map((charge) => leasing.createCaller(charge, nowMs, context, timeoutMs))
  const [only] = callers
  if (only && charges.length === 1) return leasing.decideFor(only)
  return new LeasedDecision(leasing, request, callers, context).decide()
}

/**
 * Other permits are taken one by one: a slot is held by one request, a policy in shadow mode counts each request,
 * settling calls the store in any case, and no caller may use permits during a penalty.
 */
function canLease(charge: StoreCharge): boolean {
  const { algorithm, reserved, penalty, needsSettlement, counts } = charge
  const isPlain = reserved === 0 && !penalty && !needsSettlement && countsEveryRequest(counts)
  return isEnforced(charge) && isPlain && ALGORITHMS[algorithm].lease !== undefined
}
