import type { Decision, DecisionRequest, Rule } from '../model/charge.ts'
import { type Release, type Store, StoreError } from '../model/store.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Log } from '../runtime/log.ts'
import { StoreAround } from '../store/store-around.ts'
import { type Circuit, CircuitBreaker } from './circuit-breaker.ts'
import { PendingReleases } from './pending-releases.ts'

export interface GuardedStoreOptions {
  readonly store: Store
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  /** Deadline of a decision, in milliseconds. */
  readonly timeoutMs: number
  readonly log: Log
  readonly hasBreaker?: boolean
}

/**
 * A store that is not asked for decisions while it keeps failing, and that gets back what it gave as soon as it can.
 */
export class GuardedStore extends StoreAround {
  readonly #log: Log
  readonly #breaker: CircuitBreaker | undefined
  readonly #pending: PendingReleases

  constructor({ store, now, timeoutMs, log, hasBreaker = true }: GuardedStoreOptions) {
    super(store)
    this.#log = log
    const random = Math.random
    this.#breaker = hasBreaker ? new CircuitBreaker({ now, random, probeTimeoutMs: 2 * timeoutMs }) : undefined
    this.#pending = new PendingReleases(store, now)
  }

  get circuit(): Circuit {
    return this.#breaker?.circuit ?? 'closed'
  }

  override decide(request: DecisionRequest, context?: CallContext): Promise<Decision> {
    // The request that began may have no time left.
    if (this.#pending.size > 0) context?.waitUntil(this.#pending.keep())
    const decision = this.#breaker ? this.#ask(this.#breaker, request, context) : this.store.decide(request, context)
    // Even if the client goes away first: slots that were taken for it must become known, so that they can be given
    // back.
    if (request.rules.some(({ slot }) => slot !== undefined)) context?.waitUntil(decision.catch(() => {}))
    return decision
  }

  async #ask(breaker: CircuitBreaker, request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const end = breaker.begin()
    if (!end) throw new StoreError('not asked for a moment, after it failed repeatedly', { mayHaveRun: false })
    let isSuccess = false
    try {
      const decision = await this.store.decide(request, context)
      isSuccess = true
      return decision
    } finally {
      const wasClosed = this.circuit === 'closed'
      end(isSuccess)
      if (this.circuit === 'closed' && !wasClosed) this.#log('info', { event: 'store_recovered' })
    }
  }

  // What was taken is given back whether or not the store is well: nobody waits for it.
  override async release(rules: readonly Rule[]): Promise<void> {
    try {
      await this.store.release(rules)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      await this.revoke(rules.map((rule) => ({ rule, isKnown: true })))
    }
  }

  override revoke(releases: readonly Release[]): Promise<void> {
    this.#pending.add(releases)
    return this.#pending.keep()
  }
}
