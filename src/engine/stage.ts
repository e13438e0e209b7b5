import type { Decision, DecisionRequest, StoreCharge } from '../model/charge.ts'
import type { Store } from '../model/store.ts'
import type { CallContext } from '../runtime/call-context.ts'

/** Counts the decisions that took no call to the store. */
export interface AvoidedCalls {
  byRefusalCache: number
  byLeases: number
  /** Permits taken in advance, used or not. */
  permitsLeased: number
}

export function createAvoidedCalls(): AvoidedCalls {
  return { byRefusalCache: 0, byLeases: 0, permitsLeased: 0 }
}

/** @returns a store with some methods of its own; the others are those of `store` */
export function decorate(store: Store, own: Partial<Store>): Store {
  return {
    kind: store.kind,
    decide: (request, context) => store.decide(request, context),
    release: (charges) => store.release(charges),
    revoke: (releases) => store.revoke(releases),
    renew: (charges) => store.renew(charges),
    settle: (differences, chargedAtMs) => store.settle(differences, chargedAtMs),
    delete: (keys) => store.delete(keys),
    ping: () => store.ping(),
    ...own,
  }
}

/** @returns a decision about some charges of a request; the others are reported as skipped */
export async function decideSome<C extends StoreCharge>(
  store: Store,
  request: DecisionRequest<C>,
  isDecided: (charge: C) => boolean,
  context?: CallContext,
): Promise<Decision> {
  // Asked once: what it goes by may change during the call.
  const decided = new Set(request.charges.filter(isDecided))
  const decision = await store.decide({ ...request, charges: [...decided] }, context)
  const usages = decision.usage.values()
  return {
    ...decision,
    usage: request.charges.map((charge) => (decided.has(charge) ? (usages.next().value ?? []) : [])),
  }
}
