import type { Charge, Decided } from '../../engine/decider.ts'
import { DenyCache } from '../../engine/deny-cache.ts'
import { type LeaseSize, Leases } from '../../engine/leases.ts'
import type { Rule } from '../../model/charge.ts'
import type { Store } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import type { VirtualStore } from './virtual-store.ts'

/** What an isolate knows without asking: whom it has refused, and permits that it has taken in advance. */
export interface Isolate {
  /** Undefined: it takes none. */
  readonly leases: LeaseSize | undefined
}

/** Decides by a store in virtual time: each request by a call, or as one isolate of the Worker would. */
export class VirtualDecider {
  readonly #asked: Pick<Store, 'decide'>
  #last: readonly Rule[] = []

  /** @param isolate undefined: every request is asked for */
  constructor(store: Pick<VirtualStore, 'nowMs' | 'decide'>, isolate: Isolate | undefined) {
    const now = () => Math.floor(store.nowMs)
    const denyCache = isolate ? new DenyCache(store, now) : store
    this.#asked = isolate?.leases === undefined ? denyCache : new Leases(denyCache, now, isolate.leases)
  }

  /** The rules of the last decision, in order. */
  get lastRules(): readonly Rule[] {
    return this.#last
  }

  async decide(charges: readonly Charge[], context: CallContext): Promise<Decided> {
    const rules = charges.map(({ rule }) => rule)
    this.#last = rules
    const decision = await this.#asked.decide({ mode: 'all', permits: 1, rules }, context)
    return { ...decision, rules, chargedIn: UNSETTLED }
  }

  async charge(rules: readonly Rule[], _decided: Pick<Decided, 'chargedIn'>, context: CallContext): Promise<void> {
    await this.#asked.decide({ mode: 'charge', permits: 1, rules }, context)
  }
}

/** Actual costs stand in responses, which a log does not hold. */
const UNSETTLED: Decided['chargedIn'] = { async settle() {} }
