/** Helpers that the stages around a store share. */
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import type { UntoldReason } from '../../model/cost.ts'
import type { Store } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import type { Complete } from '../../runtime/lists.ts'

/** Observes what the stages around a store do, and what is not known in the end. */
export interface StageWatch {
  /** A response did not tell what it has cost a policy. */
  onUntold?(policy: string, reason: UntoldReason): void
  /** No call to the store was needed: for a decision, or for one charge of it. */
  onAvoided(by: 'refusalCache' | 'leases', charges: readonly StoreCharge[]): void
  /** Permits were taken in advance, to be used or not. */
  onLeased(permits: number): void
}

/** @returns a store with some methods of its own; the others are those of `store` */
export function decorate<More = unknown>(store: Store, own: Partial<Store> & More): Store & More {
  const rest: Complete<Store> = {
    kind: store.kind,
    places: store.places,
    decide: (request, context) => store.decide(request, context),
    isSplit: store.isSplit,
    release: (charges) => store.release(charges),
    revoke: (releases) => store.revoke(releases),
    renew: (charges) => store.renew(charges),
    settle: (differences, chargedAtMs) => store.settle(differences, chargedAtMs),
    delete: (keys) => store.delete(keys),
    ping: () => store.ping(),
  }
  return { ...rest, ...own }
}

/** @returns a decision about some charges of a request; the others are reported as skipped */
export async function decideSome<C extends StoreCharge>(
  store: Store,
  request: DecisionRequest<C>,
  isDecided: (charge: C) => boolean,
  context?: CallContext,
): Promise<Decision> {
  // Called once for each: what it goes by may change during the call.
  const decided = new Set(request.charges.filter(isDecided))
  const decision = await store.decide({ ...request, charges: [...decided] }, context)
  const usages = decision.usage.values()
  return {
    ...decision,
    usage: request.charges.map((charge) => (decided.has(charge) ? (usages.next().value ?? []) : [])),
  }
}
