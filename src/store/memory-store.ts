import { ALGORITHMS } from '../algorithms/algorithm.ts'
import type { DecisionRequest, Rule, Store, StoreDecision } from './store.ts'

/** Callers remembered at most, so that an isolate (128 MB) cannot be filled by minting identities. */
const MAX_KEYS = 100_000

interface Slot {
  state: unknown
  expiresAtMs: number
}

/**
 * Exact limits in this isolate's memory: the twin of `lua/decide.lua`, over the twins of the algorithms.
 * @param now milliseconds since the Unix epoch; may have a fraction
 */
export class MemoryStore implements Store {
  readonly kind = 'memory'
  readonly #slots = new Map<string, Slot>()
  readonly #now: () => number
  /** Lifetimes are counted by a clock that never goes back. */
  #latestMs = 0

  constructor(now: () => number) {
    this.#now = now
  }

  async decide(request: DecisionRequest): Promise<StoreDecision> {
    return this.decideNow(request)
  }

  async ping(): Promise<void> {}

  /** Number of callers remembered. */
  get size(): number {
    return this.#slots.size
  }

  decideNow({ mode, permits, rules }: DecisionRequest): StoreDecision {
    const nowUs = Math.round(this.#now() * 1000)
    const nowMs = Math.floor(nowUs / 1000)
    this.#latestMs = Math.max(this.#latestMs, nowMs)
    const wantedPermits = mode === 'partial' ? 1 : permits

    let granted = permits
    const peeks = rules.map((rule) => {
      const wanted = rule.cost * wantedPermits + rule.reserved
      const peek = ALGORITHMS[rule.algorithm].peek(this.#read(rule.key), rule, nowUs, wanted)
      const fitting = Math.max(0, Math.floor((peek.available - rule.reserved) / rule.cost))
      if (rule.enforced) granted = Math.min(granted, fitting)
      return { rule, usage: peek.usage, fitting }
    })
    if (mode !== 'partial' && granted < permits) granted = 0

    const usage = peeks.map(({ rule, usage, fitting }) => {
      if (granted === 0 || mode === 'peek' || granted > fitting) return usage
      const units = granted * rule.cost
      this.#charge(rule, nowUs, units)
      return usage.map((tier) => ({ ...tier, remaining: tier.remaining - units }))
    })
    return { granted, nowMs, usage }
  }

  #read(key: string): unknown {
    const slot = this.#slots.get(key)
    return slot && slot.expiresAtMs > this.#latestMs ? slot.state : undefined
  }

  #charge(rule: Rule, nowUs: number, units: number): void {
    const { state, ttlMs } = ALGORITHMS[rule.algorithm].commit(this.#read(rule.key), rule, nowUs, units)
    const expiresAtMs = ttlMs === undefined ? this.#slots.get(rule.key)?.expiresAtMs : this.#latestMs + ttlMs
    // Deleted first, so that the map's order is that of last use.
    this.#slots.delete(rule.key)
    this.#slots.set(rule.key, { state, expiresAtMs: expiresAtMs ?? 0 })
    this.#evict()
  }

  /** Forgets the least recently charged callers: two a charge while they have expired, and any beyond the bound. */
  #evict(): void {
    let steps = 2
    for (const [key, slot] of this.#slots) {
      if (this.#slots.size <= MAX_KEYS && (steps-- === 0 || slot.expiresAtMs > this.#latestMs)) return
      this.#slots.delete(key)
    }
  }
}
