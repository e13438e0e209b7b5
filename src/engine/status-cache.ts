import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../model/charge.ts'
import { Lru } from '../runtime/lru.ts'

/** What a reply of the store says about one key. */
export interface Reply extends Pick<Decision, 'granted' | 'nowMs'> {
  readonly usage: readonly LimitState[]
  /** Replies that this isolate had heard when it asked. */
  readonly heardBefore: number
  /** When it asked, by the isolate's clock. */
  readonly sentAtMs: number
}

/** How a key stands, as far as an isolate can know: by the latest of the store's replies. All its requests share it. */
export class KnownStatus {
  /** After the latest decision; empty if it is not known. */
  usage: readonly LimitState[] = []
  /** When the latest decision was asked for, by the isolate's clock: the store decided then or later. */
  sentAtMs = 0
  /** When the latest request was asked for that a tier refused, for each tier, by the isolate's clock. */
  readonly refusedAtMs: number[] = []
  /** Changes with each sign that units were spent. */
  version = 1
  /** The version with which a refusal was last remembered. */
  refusedAs = 0
  /** When the latest decision was made, by the store's clock. */
  nowMs = 0
  #heardAs = 0
  #spentAtMs = 0
  #spentAs = 0

  /**
   * Replies may overtake each other. One is later than another if it was asked for after the other was heard, or by the
   * store's clock; within the same millisecond, nobody knows.
   * @param heardAs number of this reply
   * @returns whether nothing is known to have been spent since this decision
   */
  update({ granted, nowMs, usage, heardBefore, sentAtMs }: Reply, heardAs: number): boolean {
    for (const [tier, { retryAfterMs }] of usage.entries()) {
      if (granted === 0 && retryAfterMs > 0) this.refusedAtMs[tier] = sentAtMs
    }
    const isAfterSpending = heardBefore >= this.#spentAs || nowMs > this.#spentAtMs
    const isLatest = heardBefore >= this.#heardAs || nowMs > this.nowMs
    if (!isLatest && nowMs < this.nowMs) return isAfterSpending
    const isLess =
      usage.some(({ remaining }, tier) => remaining < (this.usage[tier]?.remaining ?? 0)) ||
      blockedUntilMs(usage, nowMs) > blockedUntilMs(this.usage, this.nowMs)
    // Others have spent if less is left, or a block has begun: by itself, it only grows.
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

  /** A call has failed that may have charged, now or later. */
  doubt(heardAs: number): void {
    this.version++
    this.usage = this.usage.map((tier) => ({ ...tier, remaining: 0 }))
    this.#spentAtMs = Number.POSITIVE_INFINITY
    this.#spentAs = heardAs
  }

  /** Whether it refused everything, whatever was left. */
  get isBlocked(): boolean {
    return this.usage.some(({ blockedMs }) => blockedMs !== undefined)
  }

  /** Units that are certainly left, in all tiers, unless others spend; all that there are, if nothing is known. */
  get remaining(): number {
    return Math.min(...this.usage.map(({ remaining }) => remaining))
  }
}

/** By the store's clock; 0 if it is not blocked. */
function blockedUntilMs([tier]: readonly LimitState[], nowMs: number): number {
  return tier?.blockedMs === undefined ? 0 : nowMs + tier.blockedMs
}

/** Keys remembered at most. */
const MAX_KEYS = 10_000

/** How the keys stand that an isolate has asked about lately. */
export class StatusCache {
  readonly #standings = new Lru<KnownStatus>(MAX_KEYS)
  /** Names of keys that have had several limits. */
  readonly #namesOfKeys = new Lru<Set<string>>(MAX_KEYS)
  /** Replies heard so far. */
  #heard = 0

  get heard(): number {
    return this.#heard
  }

  get(rule: StoreCharge): KnownStatus | undefined {
    return this.#standings.get(formatStatusName(rule))
  }

  of(rule: StoreCharge): KnownStatus {
    const name = formatStatusName(rule)
    if (rule.plan !== undefined) this.#addName(rule.key, name)
    return this.#named(name)
  }

  /**
   * @param heardBefore what `heard` was when the call was sent
   * @returns for each rule, whether nothing is known to have been spent since
   */
  hear({ rules }: DecisionRequest, decision: Decision, sentAtMs: number, heardBefore: number): boolean[] {
    const { granted, nowMs } = decision
    const heardAs = ++this.#heard
    return rules.map((rule, index) => {
      const usage = decision.usage[index] ?? []
      return usage.length === 0 || this.of(rule).update({ granted, nowMs, usage, heardBefore, sentAtMs }, heardAs)
    })
  }

  /** Something other than a decision has changed these keys: nothing heard or asked before counts. */
  forget(keys: readonly string[]): void {
    const heardAs = ++this.#heard
    for (const key of keys) {
      this.#named(key).doubt(heardAs)
      for (const name of this.#namesOfKeys.get(key) ?? []) this.#named(name).doubt(heardAs)
    }
  }

  /** A call has failed that may have charged. */
  doubt({ rules }: DecisionRequest): void {
    const heardAs = ++this.#heard
    for (const rule of rules) this.get(rule)?.doubt(heardAs)
  }

  #addName(key: string, name: string): void {
    const names = this.#namesOfKeys.get(key)
    if (names) names.add(name)
    else this.#namesOfKeys.set(key, new Set([name]))
  }

  #named(name: string): KnownStatus {
    let standing = this.#standings.get(name)
    if (!standing) {
      standing = new KnownStatus()
      this.#standings.set(name, standing)
    }
    return standing
  }
}

/** Under which it is kept how a rule stands: what is left of a key is another thing to each plan. */
export function formatStatusName({ key, plan }: StoreCharge): string {
  return plan === undefined ? key : `${key} ${plan}`
}
