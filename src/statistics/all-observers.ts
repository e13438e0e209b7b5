import type { Observed, Observer } from '../http/observer.ts'
import type { CallContext } from '../runtime/call-context.ts'

/** Tells each of several observers. */
export class AllObservers implements Observer {
  readonly #observers: readonly Observer[]

  constructor(observers: readonly Observer[]) {
    this.#observers = observers
  }

  decided(observed: Observed, context: Pick<CallContext, 'waitUntil'>): void {
    for (const observer of this.#observers) observer.decided(observed, context)
  }

  answered(observed: Observed, status: number, context: Pick<CallContext, 'waitUntil'>): void {
    for (const observer of this.#observers) observer.answered(observed, status, context)
  }

  undecided(outcome: 'bad_request' | 'failed', context: Pick<CallContext, 'waitUntil'>): void {
    for (const observer of this.#observers) observer.undecided(outcome, context)
  }
}
