import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../model/charge.ts'
import { Lru } from '../runtime/lru.ts'

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
  /** Start of the latest call, by the isolate's clock: the store decided then or later. */
  sentAtMs = 0
  /** Grows with each sign that units were used. */
  version = 1
  /** The version when a refusal was last cached. */
  refusedAs = 0
  /** The latest decision, by the store's clock. */
  nowMs = 0
  #latestReply = 0
  #usedAtMs = 0
  #usedAtReply = 0

  /**
   * Replies may overtake each other. One is later than another if its call began after the other was received, or by the
   * store's clock; within the same millisecond, the order is unknown.
   * @param replyNumber number of this reply
   * @returns true if no units are known to have been used since this decision
   */
  update({ granted, nowMs, usage, repliesBefore, sentAtMs }: Reply, replyNumber: number): boolean {
    const isAfterUse = repliesBefore >= this.#usedAtReply || nowMs > this.#usedAtMs
    const isLatest = repliesBefore >= this.#latestReply || nowMs > this.nowMs
    if (!isLatest && nowMs < this.nowMs) return isAfterUse
    const isLess =
      usage.some(({ remaining }, index) => remaining < (this.usage[index]?.remaining ?? 0)) ||
      findPenaltyEndMs(usage, nowMs) > findPenaltyEndMs(this.usage, this.nowMs)
    // By themselves, remaining units only grow: if fewer remain, or a penalty has begun, others have used some.
    if (granted > 0 || isLess) {
      this.version++
      this.#usedAtMs = nowMs
      this.#usedAtReply = replyNumber
    }
    if (isLatest || isLess) {
      this.usage = usage
      this.nowMs = nowMs
      this.sentAtMs = sentAtMs
      this.#latestReply = replyNumber
    }
    return isAfterUse
  }

  /** Records a failed call that may have charged, now or later. */
  invalidate(replyNumber: number): void {
    this.version++
    this.usage = this.usage.map((limit) => ({ ...limit, remaining: 0 }))
    this.#usedAtMs = Number.POSITIVE_INFINITY
    this.#usedAtReply = replyNumber
  }
}

/** True while a penalty refuses everything, whatever remains. */
export function hasPenalty(usage: readonly LimitState[]): boolean {
  return usage.some(({ penaltyMs }) => penaltyMs !== undefined)
}

/** Units that remain of all limits; infinite if none is known. */
export function findMinRemaining(usage: readonly LimitState[]): number {
  return Math.min(...usage.map(({ remaining }) => remaining))
}

/** The store's clock; 0 without a penalty. */
function findPenaltyEndMs([limit]: readonly LimitState[], nowMs: number): number {
  return limit?.penaltyMs === undefined ? 0 : nowMs + limit.penaltyMs
}

const MAX_KEYS = 10_000
/** A key has a name for each plan, and for each edition of its limits. */
const MAX_NAMES_A_KEY = 100

/** Statuses of the keys that an isolate has charged lately. */
export class StatusCache {
  readonly #statuses = new Lru<KnownStatus>(MAX_KEYS)
  /** Names of the statuses of keys that have had several limits. */
  readonly #namesOfKeys = new Lru<Set<string>>(MAX_KEYS)
  /** Replies received so far. */
  replies = 0

  get(charge: StoreCharge): KnownStatus | undefined {
    return this.#statuses.get(formatStatusName(charge))
  }

  ensure(charge: StoreCharge): KnownStatus {
    const name = formatStatusName(charge)
    const { key, plan } = charge
    if (plan !== undefined) {
      const names = this.#namesOfKeys.get(key) ?? new Set()
      if (names.size >= MAX_NAMES_A_KEY && !names.has(name)) {
        // Those in use come back with their next call.
        this.delete([key])
        names.clear()
      }
      this.#namesOfKeys.set(key, names.add(name))
    }
    return this.#ensureNamed(name)
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
        this.ensure(charge).update({ granted, nowMs, usage, repliesBefore, sentAtMs }, replyNumber)
      )
    })
  }

  /** Invalidates keys that were changed by something other than a decision: earlier calls and replies no longer count. */
  delete(keys: readonly string[]): void {
    const replyNumber = ++this.replies
    for (const key of keys) {
      this.#ensureNamed(key).invalidate(replyNumber)
      for (const name of this.#namesOfKeys.get(key) ?? []) this.#ensureNamed(name).invalidate(replyNumber)
    }
  }

  /** Records a failed call that may have charged. */
  invalidate({ charges }: DecisionRequest): void {
    const replyNumber = ++this.replies
    for (const charge of charges) this.get(charge)?.invalidate(replyNumber)
  }

  #ensureNamed(name: string): KnownStatus {
    let status = this.#statuses.get(name)
    if (!status) {
      status = new KnownStatus()
      this.#statuses.set(name, status)
    }
    return status
  }
}

/** The name of a status: the remaining units of a key differ by plan. */
export function formatStatusName({ key, plan }: StoreCharge): string {
  return plan === undefined ? key : `${key} ${plan}`
}
