import { countGranted, type Evaluation, skipCharge, subtract } from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import type { CommitOrAbort, ObjectVote, PreparedCharge } from './objects.ts'

/** A message to the object of the rule with this index. */
export interface To<Message> {
  readonly index: number
  readonly message: Message
}

export interface Conclusion {
  readonly decision: Decision
  /** Ends of reservations that charge less than was reserved: until they have arrived, others are refused by them. */
  readonly givenBack: readonly To<CommitOrAbort>[]
  /** To the objects to which a newcomer is new: nobody is let through before all of them have acknowledged it. */
  readonly awaited: readonly To<CommitOrAbort>[]
  /** Ends of all that stays charged, to be sent after that. */
  readonly kept: readonly To<CommitOrAbort>[]
  /** The clocks of the objects when they voted, in milliseconds, by index of the rule. */
  readonly votedAtMs: ReadonlyMap<number, number>
}

/** One decision over the objects of its rules, as the decider sees it. No I/O: the store sends its messages. */
export class Negotiation {
  readonly #request: DecisionRequest
  readonly #id: number
  readonly #patienceMs: number
  /** By index of the rule. */
  readonly #votes = new Map<number, ObjectVote>()

  /**
   * @param id number of the decision; no other has it
   * @param patienceMs how long an object may wait for the ends of other decisions before it refuses because of them
   */
  constructor(request: DecisionRequest, id: number, patienceMs: number) {
    this.#request = request
    this.#id = id
    this.#patienceMs = patienceMs
  }

  /** To all objects at once. */
  first(): To<PreparedCharge>[] {
    const { rules, mode, permits } = this.#request
    return this.#reservations(mode, permits, (index) => !isForNewcomers(rules[index]))
  }

  /** To the objects of the rules for newcomers, if there is one, when all have answered. */
  second(): To<PreparedCharge>[] {
    const { rules, mode } = this.#request
    const firstNew = rules.findIndex((_, index) => this.#votes.get(index)?.isNew)
    if (firstNew < 0) return []
    const isAsked = (index: number) => index > firstNew && isForNewcomers(rules[index])
    const granted = countGranted(this.#request, this.#allVotes())
    if (granted > 0) return this.#reservations(mode, granted, isAsked)
    // It is refused already; they only report their usage.
    return this.#reservations('peek', this.#minPermits, isAsked)
  }

  hear(index: number, vote: ObjectVote): void {
    this.#votes.set(index, vote)
  }

  /** To every object that was, or may have been, asked: it is as if this decision had never been. */
  cancel(): To<CommitOrAbort>[] {
    if (this.isFinal) return []
    const { rules } = this.#request
    const hasNewcomer = rules.some((_, index) => this.#votes.get(index)?.isNew && this.#precedesNewcomers(index))
    return rules.flatMap((rule, index) => {
      const vote = this.#votes.get(index)
      const isAsked = vote ? vote.charged > 0 : !isForNewcomers(rule) || hasNewcomer
      return isAsked ? [{ index, message: { id: this.#id, permits: 0 } }] : []
    })
  }

  /** To be called when all have answered. */
  conclude(): Conclusion {
    const { rules } = this.#request
    const votes = this.#allVotes()
    const granted = countGranted(this.#request, votes)
    const givenBack: To<CommitOrAbort>[] = []
    const awaited: To<CommitOrAbort>[] = []
    const kept: To<CommitOrAbort>[] = []
    rules.forEach(({ cost }, index) => {
      const vote = this.#votes.get(index)
      if (!vote || vote.charged === 0) return
      const permits = granted <= vote.chargeable ? granted : 0
      if (permits > 0) subtract(vote.usage, permits * cost + vote.forfeited)
      if (this.isFinal) return
      const closing = { index, message: { id: this.#id, permits } }
      if (permits === 0) givenBack.push(closing)
      else {
        kept.push(closing)
        if (vote.isNew && this.#precedesNewcomers(index)) awaited.push(closing)
        else if (permits < vote.charged) {
          givenBack.push({ index, message: { ...closing.message, isProvisional: true } })
        }
      }
    })
    const isProvisional = rules.some(({ enforced }, index) => {
      const vote = this.#votes.get(index)
      return enforced && vote?.isProvisional && vote.fitting < this.#minPermits
    })
    const usage = votes.map(({ usage }) => usage)
    const votedAtMs = new Map([...this.#votes].map(([index, { nowMs }]) => [index, nowMs]))
    const nowMs = Math.max(...votedAtMs.values())
    const decision = { granted, nowMs, usage, ...(granted === 0 && isProvisional && { isProvisional: true as const }) }
    return { decision, givenBack, awaited, kept, votedAtMs }
  }

  /** Whether an object was told that the decision is given up before it was asked, or cannot keep one more in mind. */
  get isVoid(): boolean {
    return [...this.#votes.values()].some(({ isVoid }) => isVoid)
  }

  /** Whether nothing that is charged can be taken back. */
  get isFinal(): boolean {
    const { mode, rules } = this.#request
    return rules.length === 1 || mode === 'charge' || mode === 'peek'
  }

  /** Permits without which nothing is granted. */
  get #minPermits(): number {
    const { mode, permits } = this.#request
    return mode === 'partial' ? 1 : permits
  }

  /** Whether a rule for newcomers comes later. */
  #precedesNewcomers(index: number): boolean {
    return this.#request.rules.some((rule, place) => place > index && isForNewcomers(rule))
  }

  #allVotes(): Evaluation[] {
    return this.#request.rules.map((rule, index) => this.#votes.get(index) ?? skipCharge(rule, this.#request))
  }

  #reservations(
    mode: DecisionRequest['mode'],
    permits: number,
    isAsked: (index: number) => boolean,
  ): To<PreparedCharge>[] {
    const { leaseMs, rules } = this.#request
    return rules.flatMap((rule, index) => {
      if (!isAsked(index)) return []
      const patienceMs = this.#patienceMs
      const reservation = { mode, permits, rule, patienceMs, ...(leaseMs !== undefined && { leaseMs }) }
      if (this.isFinal || mode === 'peek') return [{ index, message: reservation }]
      const siblings = rules.filter((other, place) => place !== index && isKeptInMind(other)).map(({ key }) => key)
      const shared = { id: this.#id, siblings, hasNewcomers: this.#precedesNewcomers(index) }
      return [{ index, message: { ...reservation, shared } }]
    })
  }
}

function isForNewcomers(rule: StoreCharge | undefined): boolean {
  return rule?.counts === 'identities'
}

/** Whether the object of a rule can refuse in the first round, and knows later what it granted. */
function isKeptInMind({ enforced, counts = 'requests' }: StoreCharge): boolean {
  return enforced && counts === 'requests'
}
