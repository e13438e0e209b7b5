import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../model/charge.ts'
import { Lru } from '../runtime/lru.ts'

/** A reply of the store, for one key. */
export interface Reply extends Pick<Decision, 'granted' | 'nowMs'> {
  readonly usage: readonly LimitState[]
  /** Number of the latest reply that the isolate had received when it sent the call. */
  readonly heardBefore: number
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
  #heardAs = 0
  #spentAtMs = 0
  #spentAs = 0

  /**
   * Replies may overtake each other. One is later than another if its call began after the other was received, or by the
   * store's clock; within the same millisecond, the order is unknown.
   * @param heardAs number of this reply
   * @returns true if no units are known to have been used since this decision
   */
  update({ granted, nowMs, usage, heardBefore, sentAtMs }: Reply, heardAs: number): boolean {
    const isAfterSpending = heardBefore >= this.#spentAs || nowMs > this.#spentAtMs
    const isLatest = heardBefore >= this.#heardAs || nowMs > this.nowMs
    if (!isLatest && nowMs < this.nowMs) return isAfterSpending
    const isLess =
      usage.some(({ remaining }, limit) => remaining < (this.usage[limit]?.remaining ?? 0)) ||
      penaltyUntilMs(usage, nowMs) > penaltyUntilMs(this.usage, this.nowMs)
    // By themselves, remaining units only grow: if fewer remain, or a penalty has begun, others have used some.
    if (granted > 0 || isLess) {
      this.version++
      this.#spentAtMs = nowMs
      this.#spentAs = heardAs
    }
    if (isLatest || isLess) {
      this.usage = usage
      this.nowMs = nowMs
      this.sentAtMs = sentAtMs
      this.#heardAs = heardAs
    }
    return isAfterSpending
  }

  /** Records a failed call that may have charged, now or later. */
  doubt(heardAs: number): void {
    this.version++
    this.usage = this.usage.map((limit) => ({ ...limit, remaining: 0 }))
    this.#spentAtMs = Number.POSITIVE_INFINITY
    this.#spentAs = heardAs
  }
}

/** True while a penalty refuses everything, whatever remains. */
export function isBlocked(usage: readonly LimitState[]): boolean {
  return usage.some(({ penaltyMs }) => penaltyMs !== undefined)
}

/** Units that remain of all limits; infinite if none is known. */
export function minRemaining(usage: readonly LimitState[]): number {
  return Math.min(...usage.map(({ remaining }) => remaining))
}

/** The store's clock; 0 without a penalty. */
function penaltyUntilMs([limit]: readonly LimitState[], nowMs: number): number {
  return limit?.penaltyMs === undefined ? 0 : nowMs + limit.penaltyMs
}

const MAX_KEYS = 10_000

/** Statuses of the keys that an isolate has charged lately. */
export class StatusCache {
  readonly #statuses = new Lru<KnownStatus>(MAX_KEYS)
  /** Names of the statuses of keys that have had several limits. */
  readonly #namesOfKeys = new Lru<Set<string>>(MAX_KEYS)
  /** Replies received so far. */
  #heard = 0

  get heard(): number {
    return this.#heard
  }

  get(charge: StoreCharge): KnownStatus | undefined {
    return this.#statuses.get(formatStatusName(charge))
  }

  of(charge: StoreCharge): KnownStatus {
    const name = formatStatusName(charge)
    if (charge.plan !== undefined) this.#addName(charge.key, name)
    return this.#named(name)
  }

  /**
   * @param heardBefore value of `heard` when the call was sent
   * @returns for each charge, true if no units are known to have been used since
   */
  hear({ charges }: DecisionRequest, decision: Decision, sentAtMs: number, heardBefore: number): boolean[] {
    const { granted, nowMs } = decision
    const heardAs = ++this.#heard
    return charges.map((charge, index) => {
      const usage = decision.usage[index] ?? []
      return usage.length === 0 || this.of(charge).update({ granted, nowMs, usage, heardBefore, sentAtMs }, heardAs)
    })
  }

  /** Invalidates keys that were changed by something other than a decision: earlier calls and replies no longer count. */
  delete(keys: readonly string[]): void {
    const heardAs = ++this.#heard
    for (const key of keys) {
      this.#named(key).doubt(heardAs)
      for (const name of this.#namesOfKeys.get(key) ?? []) this.#named(name).doubt(heardAs)
    }
  }

  /** Records a failed call that may have charged. */
  doubt({ charges }: DecisionRequest): void {
    const heardAs = ++this.#heard
    for (const charge of charges) this.get(charge)?.doubt(heardAs)
  }

  #addName(key: string, name: string): void {
    const names = this.#namesOfKeys.get(key)
    if (names) names.add(name)
    else this.#namesOfKeys.set(key, new Set([name]))
  }

  #named(name: string): KnownStatus {
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
