import { ALGORITHMS, type Peek } from '../../limit/algorithm.ts'
import { type ConcurrencyState, releaseSlot, renewSlot, revokeSlot } from '../../limit/algorithms/concurrency.ts'
import type { DecisionRequest, Difference, Release, Rule, Store, StoreDecision } from '../store.ts'

/** Callers remembered at most, so that an isolate (128 MB) cannot be filled by minting identities. */
const MAX_KEYS = 100_000

interface Slot {
  state: unknown
  /** As in Redis, a moment of the clock that decides: it is forgotten once that clock has passed it. */
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

  constructor(now: () => number) {
    this.#now = now
  }

  async decide(request: DecisionRequest): Promise<StoreDecision> {
    return this.decideNow(request)
  }

  async release(rules: readonly Rule[]): Promise<void> {
    const nowMs = toMs(this.#readClock())
    for (const { key, slot = 0 } of rules) {
      const state = this.#read(key, nowMs) as ConcurrencyState | undefined
      if (state) releaseSlot(state, slot)
    }
  }

  async revoke(releases: readonly Release[]): Promise<void> {
    const nowMs = toMs(this.#readClock())
    for (const { rule, isKnown } of releases) {
      if (isKnown) await this.release([rule])
      else {
        const held = this.#read(rule.key, nowMs) as ConcurrencyState | undefined
        const { state, ttlMs } = revokeSlot(held, rule.slot ?? 0, nowMs)
        this.#write(rule.key, state, nowMs, ttlMs)
      }
    }
  }

  async renew(rules: readonly Rule[]): Promise<void> {
    const nowMs = toMs(this.#readClock())
    for (const { key, slot = 0, tiers } of rules) {
      const held = this.#read(key, nowMs) as ConcurrencyState | undefined
      if (!held) continue
      const { state, ttlMs } = renewSlot(held, slot, nowMs, tiers[0]?.windowMs ?? 0)
      this.#write(key, state, nowMs, ttlMs)
    }
  }

  async settle(differences: readonly Difference[], chargedAtMs: number): Promise<void> {
    const nowUs = this.#readClock()
    const nowMs = toMs(nowUs)
    for (const { rule, units } of differences) {
      const state = this.#read(rule.key, nowMs)
      if (state === undefined) continue
      const commit = ALGORITHMS[rule.algorithm].settle?.(state, rule, nowUs, chargedAtMs, units)
      if (commit) this.#write(rule.key, commit.state, nowMs, commit.ttlMs)
    }
  }

  async ping(): Promise<void> {}

  /** Number of callers remembered. */
  get size(): number {
    return this.#slots.size
  }

  decideNow({ mode, permits, leaseMs = 0, rules }: DecisionRequest): StoreDecision {
    const nowUs = this.#readClock()
    const nowMs = toMs(nowUs)
    const wantedPermits = mode === 'partial' ? 1 : permits

    let granted = permits
    let hasNewcomer = false
    const peeks = rules.map((rule) => {
      const wanted = rule.cost * wantedPermits + rule.reserved
      const state = this.#read(rule.key, nowMs)
      const applies = !rule.isForNewcomers || hasNewcomer
      const peek = applies ? ALGORITHMS[rule.algorithm].peek(state, rule, nowUs, wanted) : unused(rule)
      hasNewcomer ||= applies && rule.algorithm === 'sliding-window' && state === undefined
      const fitting = Math.max(0, Math.floor((peek.available - rule.reserved) / rule.cost))
      if (rule.enforced) granted = Math.min(granted, fitting)
      return { rule, applies, usage: peek.usage, fitting }
    })
    if (mode !== 'partial' && granted < permits) granted = 0

    const usage = peeks.map(({ rule, applies, usage, fitting }) => {
      if (!applies || granted === 0 || mode === 'peek' || granted > fitting) return usage
      const units = granted * rule.cost
      this.#charge(rule, nowUs, units, leaseMs)
      return usage.map((tier) => ({ ...tier, remaining: tier.remaining - units }))
    })
    return { granted, nowMs, usage }
  }

  /** @returns microseconds */
  #readClock(): number {
    return Math.round(this.#now() * 1000)
  }

  #read(key: string, nowMs: number): unknown {
    const slot = this.#slots.get(key)
    if (!slot || slot.expiresAtMs >= nowMs) return slot?.state
    // Gone for good, also if the clock steps back.
    this.#slots.delete(key)
    return undefined
  }

  #charge(rule: Rule, nowUs: number, units: number, leaseMs: number): void {
    const nowMs = toMs(nowUs)
    const held = this.#read(rule.key, nowMs)
    const { state, ttlMs } = ALGORITHMS[rule.algorithm].commit(held, rule, nowUs, units, leaseMs)
    this.#write(rule.key, state, nowMs, ttlMs)
    this.#evict(nowMs)
  }

  /** @param ttlMs left out, the state lives as long as it would have */
  #write(key: string, state: unknown, nowMs: number, ttlMs?: number): void {
    const expiresAtMs = ttlMs === undefined ? this.#slots.get(key)?.expiresAtMs : nowMs + ttlMs
    // Deleted first, so that the map's order is that of last use.
    this.#slots.delete(key)
    this.#slots.set(key, { state, expiresAtMs: expiresAtMs ?? 0 })
  }

  /** Forgets the least recently charged callers: two a charge while they have expired, and any beyond the bound. */
  #evict(nowMs: number): void {
    let steps = 2
    for (const [key, slot] of this.#slots) {
      if (this.#slots.size <= MAX_KEYS && (steps-- === 0 || slot.expiresAtMs >= nowMs)) return
      this.#slots.delete(key)
    }
  }
}

function toMs(us: number): number {
  return Math.floor(us / 1000)
}

/** What a rule that does not hold says: nothing is used. */
function unused({ tiers }: Rule): Peek {
  const usage = tiers.map(({ limit, windowMs }) => ({ remaining: limit, resetMs: windowMs, retryAfterMs: 0 }))
  return { available: Number.POSITIVE_INFINITY, usage }
}
