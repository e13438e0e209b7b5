import type { Decision, DecisionRequest } from '../model/charge.ts'
import type { Store } from '../model/store.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { StoreAround } from '../store/store-around.ts'

/** Is told how long decisions of a store take. */
export interface StoreWatch {
  storeAnswered(ms: number): void
  storeFailed(): void
}

/** A store whose decisions are timed. */
export class MeasuredStore extends StoreAround {
  readonly #watch: StoreWatch
  readonly #now: () => number

  /** @param now milliseconds */
  constructor(store: Store, watch: StoreWatch, now: () => number) {
    super(store)
    this.#watch = watch
    this.#now = now
  }

  override async decide(request: DecisionRequest, context?: CallContext): Promise<Decision> {
    const sentAtMs = this.#now()
    try {
      const decision = await this.store.decide(request, context)
      this.#watch.storeAnswered(this.#now() - sentAtMs)
      return decision
    } catch (error) {
      this.#watch.storeFailed()
      throw error
    }
  }
}
