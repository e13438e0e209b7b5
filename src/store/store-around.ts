import type { Decision, DecisionRequest, Rule } from '../model/charge.ts'
import type { AlgorithmName } from '../model/limits.ts'
import type { Difference, Release, Store } from '../model/store.ts'
import type { CallContext } from '../runtime/call-context.ts'

/** Passes everything on to a store. What surrounds one extends this, and says only what it does in another way. */
export class StoreAround implements Store {
  readonly kind: Store['kind']
  protected readonly store: Store

  constructor(store: Store) {
    this.kind = store.kind
    this.store = store
  }

  decide(request: DecisionRequest, context?: CallContext): Promise<Decision> {
    return this.store.decide(request, context)
  }

  release(rules: readonly Rule[]): Promise<void> {
    return this.store.release(rules)
  }

  revoke(releases: readonly Release[]): Promise<void> {
    return this.store.revoke(releases)
  }

  renew(rules: readonly Rule[]): Promise<void> {
    return this.store.renew(rules)
  }

  settle(differences: readonly Difference[], chargedAtMs: number): Promise<void> {
    return this.store.settle(differences, chargedAtMs)
  }

  forget(keys: readonly string[]): Promise<void> {
    return this.store.forget(keys)
  }

  learn(algorithms: Iterable<AlgorithmName>): void {
    this.store.learn?.(algorithms)
  }

  ping(): Promise<void> {
    return this.store.ping()
  }
}
