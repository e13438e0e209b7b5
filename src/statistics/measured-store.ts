import type { Decision, DecisionRequest, Rule } from '../limit/rule.ts'
import type { CallContext } from '../store/call-context.ts'
import type { Difference, Release, Store } from '../store/store.ts'

/** Is told how long decisions of a store take. */
export interface StoreWatch {
  storeAnswered(ms: number): void
  storeFailed(): void
}

/** A store whose decisions are timed. */
export class MeasuredStore implements Store {
  readonly kind: Store['kind']
  readonly #store: Store
  readonly #watch: StoreWatch
  readonly #now: () => number

  /** @param now milliseconds */
  constructor(store: Store, watch: StoreWatch, now: () => number) {
    this.kind = store.kind
    this.#store = store
    this.#watch = watch
    this.#now = now
  }

  async decide(request: DecisionRequest, context?: CallContext): Promise<Decision> {
    const sentAtMs = this.#now()
    try {
      const decision = await this.#store.decide(request, context)
      this.#watch.storeAnswered(this.#now() - sentAtMs)
      return decision
    } catch (error) {
      this.#watch.storeFailed()
      throw error
    }
  }

  release(rules: readonly Rule[]): Promise<void> {
    return this.#store.release(rules)
  }

  revoke(releases: readonly Release[]): Promise<void> {
    return this.#store.revoke(releases)
  }

  renew(rules: readonly Rule[]): Promise<void> {
    return this.#store.renew(rules)
  }

  settle(differences: readonly Difference[], chargedAtMs: number): Promise<void> {
    return this.#store.settle(differences, chargedAtMs)
  }

  forget(keys: readonly string[]): Promise<void> {
    return this.#store.forget(keys)
  }

  ping(): Promise<void> {
    return this.#store.ping()
  }
}
