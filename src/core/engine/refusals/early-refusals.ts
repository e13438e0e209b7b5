/**
 * Repeats refusals that may end early, without a call to the store: slots are released, charges settled, and an identity
 * that was new may become known. Loaded only where a policy may make such refusals, or has requests of many costs.
 *
 * The store decides three of them a second, for each key, and the last one is repeated until the second ends. The same
 * holds for a fourth cost in a second.
 *
 * A new identity is refused; one that the store knows must not be, whichever isolate it comes to. `identity-memory.ts` says
 * which of them the store is asked about.
 */

import { countsNewIdentities, detectsNewIdentities, isUnused } from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import { isEnforced } from '../../model/policy.ts'
import type { Store } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { decideSome } from '../stages/stage.ts'
import { IdentityMemory } from './identity-memory.ts'
import { countUnits, type KnownRefusal } from './refusal-memory.ts'
import type { StatusCache } from './status-cache.ts'

/** Refusals by one key that the store decides in a second, before others are answered by what is known of them. */
const MAX_CALLS = 3

export type CreateEarlyRefusals = (statuses: StatusCache, now: () => number) => EarlyRefusals

export const createEarlyRefusals: CreateEarlyRefusals = (statuses, now) => new EarlyRefusals(statuses, now)

export interface RepeatedRefusal {
  readonly refusal: KnownRefusal
  /** The longest wait to report, if it is not known that the refusal stands for longer. */
  readonly maxWaitMs?: number
}

class EarlyRefusals {
  readonly #statuses: StatusCache
  readonly #now: () => number
  readonly #identities = new IdentityMemory()

  constructor(statuses: StatusCache, now: () => number) {
    this.#statuses = statuses
    this.#now = now
  }

  /** @param at index of the charge in the request */
  find(request: DecisionRequest, at: number, nowMs: number): RepeatedRefusal | undefined {
    const charge = request.charges[at] as StoreCharge
    const memory = this.#statuses.get(charge)?.refusals
    const calls = memory?.countCalls(nowMs) ?? 0
    if (!memory || calls < MAX_CALLS) return undefined
    const detecting = countsNewIdentities(charge) ? listDetecting(request, at) : undefined
    if (detecting?.every(({ key }) => this.#identities.admitLookUp(key, charge.key, calls, nowMs))) return undefined
    const refusal = memory.findClosest(countUnits(charge, request), nowMs)
    // An identity that was not looked up will be when it comes again.
    const isGuess = detecting && !detecting.some(({ key }) => this.#identities.isNew(key, nowMs))
    return refusal && { refusal, ...(isGuess && { maxWaitMs: memory.spanEndMs - nowMs }) }
  }

  /** @returns true if too many new identities were refused lately, and this one was not admitted here */
  isLikelyNew(request: DecisionRequest): boolean {
    if (request.action !== 'take') return false
    return request.charges.some((charge, at) => {
      if (!countsNewIdentities(charge) || !isEnforced(charge)) return false
      const refusal = this.#statuses.get(charge)?.refusals?.findClosest(countUnits(charge, request), this.#now())
      return refusal && listDetecting(request, at).some((one) => this.mayBeNew(one))
    })
  }

  /** Finds out only whether an identity is known. With Durable Objects, a charge would have to be reverted. */
  peek(store: Store, request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const isPeeked = (charge: StoreCharge) => countsNewIdentities(charge) || this.mayBeNew(charge)
    return decideSome(store, { ...request, action: 'peek' }, isPeeked, context)
  }

  noteAdmitted(charges: readonly StoreCharge[]): void {
    for (const charge of charges) if (detectsNewIdentities(charge)) this.#identities.noteKnown(charge.key)
  }

  /** Notes which identity is new, if a charge that counts new ones has refused. @param sentAtMs when the call was sent */
  noteRefused(request: DecisionRequest, at: number, usage: Decision['usage'], sentAtMs: number): void {
    if (!countsNewIdentities(request.charges[at])) return
    for (const charge of listDetecting(request, at)) {
      const limits = usage[request.charges.indexOf(charge)] ?? []
      if (limits.length > 0 && isUnused(charge, limits)) this.#identities.noteNew(charge.key, sentAtMs)
    }
  }

  /** @returns true for an identity that was not admitted here */
  mayBeNew(charge: StoreCharge): boolean {
    return detectsNewIdentities(charge) && !this.#identities.isKnown(charge.key)
  }
}

export type { EarlyRefusals }

/** The charges by which one that counts new identities finds out whether there is one. */
function listDetecting({ charges }: DecisionRequest, at: number): readonly StoreCharge[] {
  return charges.slice(0, at).filter(detectsNewIdentities)
}
