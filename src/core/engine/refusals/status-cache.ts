/** The status of the keys that an isolate has charged lately, by the replies of the store. */
import { wasSkipped } from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../model/charge.ts'
import { Lru } from '../../runtime/lru.ts'
import { type KnownRefusal, RefusalMemory } from './refusal-memory.ts'

/** A reply of the store, for one key. */
export interface Reply extends Pick<Decision, 'granted' | 'nowMs'> {
  readonly usage: readonly LimitState[]
  /** Number of the latest reply that the isolate had received when it sent the call. */
  readonly repliesBefore: number
  /** The isolate's clock. */
  readonly sentAtMs: number
}

/** The status of a key by the latest reply of the store. All requests of the isolate share it. */
export class KnownStatus {
  /** Limits after the latest decision; empty if unknown. */
  usage: readonly LimitState[] = []
  /** A call may have changed the limits since, now or later. */
  isDoubtful = false
  /** Start of the latest call, by the isolate's clock: the store decided then or later. */
  sentAtMs = 0
  /** The latest decision, by the store's clock. */
  nowMs = 0
  #latestReply = 0
  /** Number of the latest reply that was a sign that units were used, and its time by the store's clock. */
  usedAtReply = 0
  #usedAtMs = 0
  #refusals: RefusalMemory | undefined

  /** Refusals since units were last used or returned, as far as is known. */
  get refusals(): RefusalMemory | undefined {
    return this.#refusals?.usedAtReply === this.usedAtReply ? this.#refusals : undefined
  }

  addRefusal(refusal: KnownRefusal): void {
    this.#refusals = new RefusalMemory(refusal, this.usedAtReply, this.refusals)
  }

  /**
   * Replies may overtake each other. One is later than another if its call began after the other was received, or by the
   * store's clock; within the same millisecond, the order is unknown.
   * @param replyNumber number of this reply
   * @returns true if no units are known to have been used since this decision
   */
  update({ granted, nowMs, usage, repliesBefore, sentAtMs }: Reply, replyNumber: number): boolean {
    const isSentAfterUse = repliesBefore >= this.usedAtReply
    const isAfterUse = isSentAfterUse || nowMs > this.#usedAtMs
    const isLatest = repliesBefore >= this.#latestReply || nowMs > this.nowMs
    if (!isLatest && nowMs < this.nowMs) return isAfterUse
    const isLess =
      !this.isDoubtful &&
      (usage.some(({ remaining }, index) => remaining < (this.usage[index]?.remaining ?? 0)) ||
        findPenaltyEndMs(usage, nowMs) > findPenaltyEndMs(this.usage, this.nowMs))
    // By themselves, remaining units only grow: if fewer remain, or a penalty has begun, others have used some.
    if (granted > 0 || isLess) {
      this.#usedAtMs = nowMs
      this.usedAtReply = replyNumber
    }
    if (isLatest || isLess) {
      this.usage = usage
      this.isDoubtful &&= !isSentAfterUse
      this.nowMs = nowMs
      this.sentAtMs = sentAtMs
      this.#latestReply = replyNumber
    }
    return isAfterUse
  }

  /** Records a failed call that may have charged, now or later. @param replyNumber one that was recorded changes nothing */
  invalidate(replyNumber = 0): void {
    if (replyNumber <= this.usedAtReply) return
    this.isDoubtful = true
    this.#usedAtMs = Number.POSITIVE_INFINITY
    this.usedAtReply = replyNumber
  }
}

/** The store's clock; 0 without a penalty. */
function findPenaltyEndMs([limit]: readonly LimitState[], nowMs: number): number {
  return limit?.penaltyMs === undefined ? 0 : nowMs + limit.penaltyMs
}

const MAX_KEYS = 10_000

/** Statuses of the keys that an isolate has charged lately. A key has one for each plan, and each edition of its limits. */
export class StatusCache {
  readonly #statuses = new Lru<KnownStatus>(MAX_KEYS)
  /** Numbers of the latest replies before keys were deleted. */
  readonly #deletedAtReply = new Lru<number>(MAX_KEYS)
  /** Replies received so far. */
  replies = 0

  get(charge: StoreCharge): KnownStatus | undefined {
    const status = this.#statuses.get(formatStatusName(charge))
    status?.invalidate(this.#deletedAtReply.get(charge.key))
    return status
  }

  ensure(charge: StoreCharge): KnownStatus {
    const known = this.get(charge)
    if (known) return known
    this.#statuses.set(formatStatusName(charge), new KnownStatus())
    return this.get(charge) as KnownStatus
  }

  /**
   * @param repliesBefore value of `replies` when the call was sent
   * @returns for each charge, true if no units are known to have been used since
   */
  update({ charges }: DecisionRequest, decision: Decision, sentAtMs: number, repliesBefore: number): boolean[] {
    const { granted, nowMs } = decision
    const replyNumber = ++this.replies
    return charges.map((charge, index) => {
      const usage = decision.usage[index] ?? []
      return (
        usage.length === 0 ||
        wasSkipped(charge, usage) ||
        this.ensure(charge).update({ granted, nowMs, usage, repliesBefore, sentAtMs }, replyNumber)
      )
    })
  }

  /** Invalidates keys that were changed by something other than a decision: earlier calls and replies no longer count. */
  delete(keys: readonly string[]): void {
    this.replies++
    for (const key of keys) this.#deletedAtReply.set(key, this.replies)
  }

  /** Records a failed call that may have charged. */
  invalidate({ charges }: DecisionRequest): void {
    const replyNumber = ++this.replies
    for (const charge of charges) this.get(charge)?.invalidate(replyNumber)
  }
}

/** The name of a status: the remaining units of a key differ by plan. What follows the key could end an identity, too. */
export function formatStatusName({ key, plan }: StoreCharge): string {
  return plan === undefined ? key : `${plan} ${key}`
}
