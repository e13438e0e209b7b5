import type { Store } from '../model/store.ts'

/** Puts something around a store. */
export type Stage = (store: Store) => Store

/** Decisions that took no call to the store, so far. */
export interface AvoidedCalls {
  /** Refusals that were known already. */
  byRefusalCache: number
  /** Requests that spent a permit taken in advance. */
  byLeases: number
  /** Permits taken in advance, spent or not. */
  permitsLeased: number
}

export function createAvoidedCalls(): AvoidedCalls {
  return { byRefusalCache: 0, byLeases: 0, permitsLeased: 0 }
}

/** @returns a store that does some things its own way, and passes the rest on */
export function decorate(store: Store, own: Partial<Store>): Store {
  return {
    kind: store.kind,
    decide: (request, context) => store.decide(request, context),
    release: (rules) => store.release(rules),
    revoke: (releases) => store.revoke(releases),
    renew: (rules) => store.renew(rules),
    settle: (differences, chargedAtMs) => store.settle(differences, chargedAtMs),
    forget: (keys) => store.forget(keys),
    learn: (algorithms) => store.learn?.(algorithms),
    ping: () => store.ping(),
    ...own,
  }
}
