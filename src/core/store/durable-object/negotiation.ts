/**
 * One decision over several objects, as its decider sees it: every object votes and charges in advance, then is told
 * how many permits stay. New identities take a second round, since only the first one finds them.
 */
import {
  countGranted,
  countsNewIdentities,
  countWanted,
  type Evaluation,
  skipCharge,
  subtract,
} from '../../algorithms/decide.ts'
import { ACTIONS, type Decision, type DecisionRequest, type StoreCharge } from '../../model/charge.ts'
import { countsEveryRequest } from '../../model/limits.ts'
import { isEnforced } from '../../model/policy.ts'
import type { CommitOrAbort, ObjectVote, PreparedCharge } from './objects.ts'

export interface To<Message> {
  readonly index: number
  readonly key: string
  readonly message: Message
}

export interface Conclusion {
  readonly decision: Decision
  /**
   * Nobody is answered before they have arrived: they give back what refuses others until then, or keep the charge of a
   * new identity, which would lapse.
   */
  readonly awaited: readonly To<CommitOrAbort>[]
  /** They end all that stays charged, and are sent last. */
  readonly kept: readonly To<CommitOrAbort>[]
  /** The clock of each object when it voted, in milliseconds, by key. */
  readonly votedAtMs: ReadonlyMap<string, number>
}

/** It does no I/O: the store sends its messages. */
export class Negotiation {
  readonly #request: DecisionRequest
  readonly #id: number
  readonly #patienceMs: number
  readonly #votes = new Map<number, ObjectVote>()

  /**
   * @param patienceMs how long an object may wait for the ends of other decisions before it refuses because of them
   */
  constructor(request: DecisionRequest, id: number, patienceMs: number) {
    this.#request = request
    this.#id = id
    this.#patienceMs = patienceMs
  }

  prepareFirst(): To<PreparedCharge>[] {
    const { charges, action, permits } = this.#request
    return this.#listReservations(action, permits, (index) => !countsNewIdentities(charges[index]))
  }

  /** The store calls this when all have answered, and asks those that count new identities if there is one. */
  prepareSecond(): To<PreparedCharge>[] {
    const { charges, action } = this.#request
    const firstNew = charges.findIndex((_, index) => this.#votes.get(index)?.isNew)
    if (firstNew < 0) return []
    const isIncluded = (index: number) => index > firstNew && countsNewIdentities(charges[index])
    const granted = countGranted(this.#request, this.#listVotes())
    if (granted > 0) return this.#listReservations(action, granted, isIncluded)
    // It is refused already: they only report their usage.
    return this.#listReservations('peek', countWanted(this.#request), isIncluded)
  }

  addVote(index: number, vote: ObjectVote): void {
    this.#votes.set(index, vote)
  }

  /** Undoes this decision at every object that was asked, or may have been. */
  cancel(): To<CommitOrAbort>[] {
    if (this.isFinal) return []
    const { charges } = this.#request
    const hasNewIdentity = charges.some(
      (_, index) => this.#votes.get(index)?.isNew && this.#precedesNewIdentities(index),
    )
    return charges.flatMap((charge, index) => {
      const vote = this.#votes.get(index)
      const isIncluded = vote ? vote.charged > 0 : !countsNewIdentities(charge) || hasNewIdentity
      return isIncluded ? [{ index, key: charge.key, message: { id: this.#id, permits: 0 } }] : []
    })
  }

  /** The store calls this when all have answered. */
  conclude(): Conclusion {
    const { charges } = this.#request
    const votes = this.#listVotes()
    const granted = countGranted(this.#request, votes)
    const awaited: To<CommitOrAbort>[] = []
    const kept: To<CommitOrAbort>[] = []
    const votedAtMs = new Map<string, number>()
    charges.forEach(({ key, cost }, index) => {
      const vote = this.#votes.get(index)
      if (vote) votedAtMs.set(key, vote.nowMs)
      if (!vote || vote.charged === 0) return
      const permits = granted <= vote.chargeable ? granted : 0
      if (permits > 0) subtract(vote.usage, permits * cost + vote.forfeited)
      if (this.isFinal) return
      const closing = { index, key, message: { id: this.#id, permits } }
      if (permits > 0) kept.push(closing)
      if (permits === 0 || (vote.isNew && this.#precedesNewIdentities(index))) awaited.push(closing)
      else if (permits < vote.charged) awaited.push({ ...closing, message: { ...closing.message, isPartial: true } })
    })
    const isProvisional = charges.some((charge, index) => {
      const vote = this.#votes.get(index)
      return isEnforced(charge) && vote?.isProvisional && vote.fitting < countWanted(this.#request)
    })
    const usage = votes.map(({ usage }) => usage)
    const nowMs = Math.max(...votedAtMs.values())
    const decision = { granted, nowMs, usage, ...(granted === 0 && isProvisional && { isProvisional: true as const }) }
    return { decision, awaited, kept, votedAtMs }
  }

  /** An object knew that the decision is given up before it was asked, or has too many open ones. */
  get isVoid(): boolean {
    return [...this.#votes.values()].some(({ isVoid }) => isVoid)
  }

  /** Nothing that is charged can be taken back. */
  get isFinal(): boolean {
    const { action, charges } = this.#request
    const { charges: isCharged, mayRefuse } = ACTIONS[action]
    return charges.length === 1 || !isCharged || !mayRefuse
  }

  #precedesNewIdentities(index: number): boolean {
    return this.#request.charges.some((charge, at) => at > index && countsNewIdentities(charge))
  }

  #listVotes(): Evaluation[] {
    return this.#request.charges.map((charge, index) => this.#votes.get(index) ?? skipCharge(charge, this.#request))
  }

  #listReservations(
    action: DecisionRequest['action'],
    permits: number,
    isIncluded: (index: number) => boolean,
  ): To<PreparedCharge>[] {
    const { charges, ...request } = this.#request
    return charges.flatMap((charge, index) => {
      if (!isIncluded(index)) return []
      const { key } = charge
      const reservation = { ...request, action, permits, charge, patienceMs: this.#patienceMs }
      if (this.isFinal || !ACTIONS[action].charges) return [{ index, key, message: reservation }]
      const siblings = charges.filter((other, at) => at !== index && remembersGrants(other)).map(({ key }) => key)
      const shared = { id: this.#id, siblings, precedesNewIdentities: this.#precedesNewIdentities(index) }
      return [{ index, key, message: { ...reservation, shared } }]
    })
  }
}

/** An object with such a charge can refuse in the first round, and knows later what it granted. */
function remembersGrants(charge: StoreCharge): boolean {
  return isEnforced(charge) && countsEveryRequest(charge.counts)
}
