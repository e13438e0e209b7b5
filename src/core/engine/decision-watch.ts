/** Finds out by whom decisions are made, and how long they take. */
import type { Charge, StoreCharge } from '../model/charge.ts'
import type { UntoldReason } from '../model/cost.ts'
import type { Degradation } from '../model/verdict.ts'
import { createSteadyClock } from '../runtime/clocks.ts'
import type { StageWatch } from './stages/stage.ts'

export interface DecisionSource {
  /** Units that a permit costs each policy, by the policy's name; empty if none was evaluated. */
  readonly costs: Readonly<Record<string, number>>
  /**
   * A remote `store`, or `memory`; if no call was needed, `refusal-cache` or `lease`; without the store, the fallback.
   * Undefined if no policy was evaluated.
   */
  readonly decidedBy?: 'store' | 'memory' | 'refusal-cache' | 'lease' | Degradation
  /** Milliseconds until it was decided, by a clock that is never set back. */
  readonly durationMs: number
}

export class DecisionWatch implements StageWatch {
  readonly #called: 'store' | 'memory'
  readonly #next: StageWatch | undefined
  readonly #avoidedBy = new WeakMap<StoreCharge, 'refusalCache' | 'leases'>()

  /** @param next observes the same stages */
  constructor({ isRemote }: { readonly isRemote: boolean }, next?: StageWatch) {
    this.#called = isRemote ? 'store' : 'memory'
    this.#next = next
  }

  onAvoided(by: 'refusalCache' | 'leases', charges: readonly StoreCharge[]): void {
    this.#next?.onAvoided(by, charges)
    for (const charge of charges) this.#avoidedBy.set(charge, by)
  }

  onLeased(permits: number): void {
    this.#next?.onLeased(permits)
  }

  onUntold(policy: string, reason: UntoldReason): void {
    this.#next?.onUntold?.(policy, reason)
  }

  /** Begins a decision. @returns describes it at its end, by charges that no other decision has */
  start(): (charges: readonly Charge[], degraded: Degradation | undefined) => DecisionSource {
    const readPassedMs = createSteadyClock(() => performance.now())
    return (charges, degraded) => {
      const costs: Record<string, number> = {}
      for (const { policy, cost } of charges) costs[policy.name] = (costs[policy.name] ?? 0) + cost
      const source = { costs, durationMs: readPassedMs() }
      if (charges.length === 0) return source
      const avoidedBy = new Set(charges.map((charge) => this.#avoidedBy.get(charge)))
      const called = avoidedBy.has(undefined) ? this.#called : 'lease'
      return { ...source, decidedBy: degraded ?? (avoidedBy.has('refusalCache') ? 'refusal-cache' : called) }
    }
  }
}
