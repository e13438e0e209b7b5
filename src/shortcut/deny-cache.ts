import { type LRU, lru } from 'tiny-lru'
import type { DecisionRequest, Rule, Store, StoreDecision, TierUsage } from '../store/store.ts'
import type { WaitUntil } from '../wait-until.ts'

/** Refusals remembered at most. */
const MAX_ENTRIES = 10_000
/** A counter that was reset, or a limit that was raised, shows after this at the latest. */
const MAX_AGE_MS = 5_000

interface Refusal {
  readonly usage: readonly TierUsage[]
  readonly nowMs: number
  /** Redis decided at some moment between these two. */
  readonly sentAtMs: number
  readonly receivedAtMs: number
  readonly untilMs: number
}

/**
 * Answers what is certain without asking: a caller that was told to wait is refused the same cost until then. So a
 * flood of refused requests costs no calls. A refusal is remembered for the rule that refused and for the cost asked;
 * a cheaper request, or another policy, is still asked for.
 */
export class DenyCache {
  readonly #store: Pick<Store, 'decide'>
  readonly #now: () => number
  readonly #refusals: LRU<Refusal> = lru(MAX_ENTRIES)

  /** @param now milliseconds since the Unix epoch */
  constructor(store: Pick<Store, 'decide'>, now: () => number) {
    this.#store = store
    this.#now = now
  }

  async decide(request: DecisionRequest, waitUntil: WaitUntil): Promise<StoreDecision> {
    const sentAtMs = this.#now()
    const known = this.#recall(request, sentAtMs)
    if (known) return known
    const decision = await this.#store.decide(request, waitUntil)
    if (decision.granted === 0) this.#remember(request, decision, sentAtMs)
    return decision
  }

  #recall({ rules }: DecisionRequest, nowMs: number): StoreDecision | undefined {
    const refusals = rules.map((rule) => {
      const refusal = isLasting(rule) ? this.#refusals.get(nameOf(rule)) : undefined
      // A clock that stepped back says nothing of how much time has gone by.
      return refusal && nowMs < refusal.untilMs && nowMs >= refusal.receivedAtMs ? refusal : undefined
    })
    const first = refusals.find((refusal) => refusal !== undefined)
    if (!first) return undefined
    const usage = refusals.map((refusal) => (refusal ? agedUsage(refusal, nowMs) : []))
    return { granted: 0, nowMs: first.nowMs + nowMs - first.sentAtMs, usage }
  }

  #remember({ rules }: DecisionRequest, { nowMs, usage }: StoreDecision, sentAtMs: number): void {
    rules.forEach((rule, index) => {
      const tiers = usage[index] ?? []
      // The tier that holds longest. Before it gives back anything, nothing of this can change for the better.
      const decisive = tiers.toSorted((a, b) => b.retryAfterMs - a.retryAfterMs)[0]
      if (!isLasting(rule) || !decisive || decisive.retryAfterMs === 0) return
      const untilMs = sentAtMs + Math.min(decisive.resetMs, decisive.retryAfterMs, MAX_AGE_MS)
      const refusal = { usage: tiers, nowMs, sentAtMs, receivedAtMs: this.#now(), untilMs }
      this.#refusals.set(nameOf(rule), refusal)
    })
  }
}

/**
 * Whether a rule that has refused goes on to do so, for the same reason: slots and settled charges may be given back at
 * any moment, and what is reserved may be used up by others.
 */
function isLasting({ algorithm, enforced, reserved, isSettled, isForNewcomers }: Rule): boolean {
  return enforced && reserved === 0 && algorithm !== 'concurrency' && !isSettled && !isForNewcomers
}

function nameOf({ key, cost }: Rule): string {
  return `${key} ${cost}`
}

function agedUsage({ usage, sentAtMs, receivedAtMs }: Refusal, nowMs: number): TierUsage[] {
  return usage.map(({ remaining, resetMs, retryAfterMs }) => ({
    remaining,
    resetMs: Math.max(0, resetMs - (nowMs - sentAtMs)),
    // From the later moment: who waits that long is not told to wait again.
    retryAfterMs: retryAfterMs === 0 ? 0 : Math.max(1, retryAfterMs - (nowMs - receivedAtMs)),
  }))
}
