import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import { type ConcurrencyState, releaseSlot, renewSlot, revokeSlot } from '../../algorithms/concurrency.ts'
import { decide } from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import type { Adjustment, Release, Store } from '../../model/store.ts'
import type { Backend } from '../backend.ts'
import type { DocumentStore } from '../documents.ts'
import { ExpiringStates } from './expiring-states.ts'

/**
 * Exact limits in this process's memory.
 * @param now milliseconds since the Unix epoch; may have a fraction
 * @param states by default, as many as an isolate can hold
 */
export class MemoryStore<S extends ExpiringStates = ExpiringStates> implements Store {
  readonly kind = 'memory'
  protected readonly states: S
  protected readonly now: () => number

  constructor(now: () => number, states: S = new ExpiringStates() as S) {
    this.now = now
    this.states = states
  }

  async decide(request: DecisionRequest): Promise<Decision> {
    return this.decideNow(request)
  }

  decideNow(request: DecisionRequest): Decision {
    return decide(request, this.#advance(), this.states)
  }

  async release(charges: readonly StoreCharge[]): Promise<void> {
    return this.revoke(charges.map((charge) => ({ charge, isKnown: true })))
  }

  async revoke(releases: readonly Release[]): Promise<void> {
    const nowUs = this.#advance()
    for (const { charge, isKnown } of releases) {
      const { key, slot = 0 } = charge
      const held = this.states.read(key) as ConcurrencyState | undefined
      if (isKnown) {
        if (held) releaseSlot(held, slot)
        continue
      }
      const { state, ttlMs } = revokeSlot(held, slot, toMs(nowUs))
      this.states.write(key, state, ttlMs)
    }
  }

  async renew(charges: readonly StoreCharge[]): Promise<void> {
    const nowUs = this.#advance()
    for (const { key, slot = 0, limits } of charges) {
      const held = this.states.read(key) as ConcurrencyState | undefined
      if (!held) continue
      const { state, ttlMs } = renewSlot(held, slot, toMs(nowUs), limits[0]?.windowMs ?? 0)
      this.states.write(key, state, ttlMs)
    }
  }

  async settle(differences: readonly Adjustment[], chargedAtMs: number): Promise<void> {
    const nowUs = this.#advance()
    for (const { charge, units } of differences) {
      const state = this.states.read(charge.key)
      const commit = ALGORITHMS[charge.algorithm].implementation.settle?.(state, charge, nowUs, chargedAtMs, units)
      if (commit) this.states.write(charge.key, commit.state, commit.ttlMs)
    }
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.states.delete(key)
  }

  async ping(): Promise<void> {}

  get size(): number {
    return this.states.size
  }

  /** Sets the states to now. @returns microseconds */
  #advance(): number {
    const nowUs = Math.round(this.now() * 1000)
    this.states.advanceTo(toMs(nowUs))
    return nowUs
  }
}

function toMs(us: number): number {
  return Math.floor(us / 1000)
}

/** @param now milliseconds since the Unix epoch */
export function openMemoryBackend(now: () => number): Backend {
  const documents = new Map<string, DocumentStore>()
  return {
    limits: new MemoryStore(now),
    async documents(key) {
      const { MemoryDocuments } = await import('./memory-tables.ts')
      const known = documents.get(key) ?? new MemoryDocuments(now)
      documents.set(key, known)
      return known
    },
    async counters() {
      const { MemoryCounters } = await import('./memory-tables.ts')
      return new MemoryCounters(now)
    },
  }
}
