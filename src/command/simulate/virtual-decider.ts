import { Engine } from '../../engine/engine.ts'
import { type LeaseSize, withLeases } from '../../engine/leases.ts'
import type { Charge, DecisionRequest } from '../../model/charge.ts'
import type { Store } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import type { VirtualStore } from './virtual-store.ts'

type Decides = Pick<VirtualStore, 'nowMs' | 'decide'>

/** What an isolate knows without asking: whom it has refused, and permits that it has taken in advance. */
export interface Isolate {
  /** Undefined: it takes none. */
  readonly leases: LeaseSize | undefined
}

/** Decides by a store in virtual time: each request by a call, or as one isolate of the Worker would. */
export class VirtualDecider {
  readonly #engine: Engine
  #last: readonly Charge[] = []

  /** @param isolate undefined: every request is asked for */
  constructor(store: Decides, isolate: Isolate | undefined) {
    const now = () => Math.floor(store.nowMs)
    this.#engine = new Engine({
      store: withoutFollowUp(store),
      fallback: withoutFollowUp(store),
      now,
      log() {},
      timeoutMs: Number.POSITIVE_INFINITY,
      leases: isolate?.leases === undefined ? undefined : withLeases(isolate.leases, now),
      localShare: 1,
      hasRefusalCache: isolate !== undefined,
      hasBreaker: false,
    })
  }

  /** The charges of the last decision, in order. */
  get lastRules(): readonly Charge[] {
    return this.#last
  }

  decide<C extends Charge>(
    charges: readonly C[],
    context: CallContext,
    permits?: Pick<DecisionRequest, 'mode' | 'permits'>,
  ) {
    this.#last = charges
    return this.#engine.decide(charges, context, permits)
  }

  charge(...asked: Parameters<Engine['charge']>): Promise<void> {
    return this.#engine.charge(...asked)
  }
}

/** Actual costs, and the ends of responses, are not in a log. */
function withoutFollowUp(store: Decides): Store {
  const nothing = async () => {}
  return {
    kind: 'virtual',
    decide: (request) => store.decide(request),
    ...{ release: nothing, revoke: nothing, renew: nothing, settle: nothing, forget: nothing, ping: nothing },
  }
}
