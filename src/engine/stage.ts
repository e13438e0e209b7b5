import type { Store } from '../model/store.ts'

/** Wraps a store. */
export type Stage = (store: Store) => Store

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
