import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import { type ConcurrencyState, releaseSlot, renewSlot, revokeSlot } from '../../algorithms/concurrency.ts'
import { decide, type States } from '../../algorithms/decide.ts'
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
    const nowUs = this.#readClockUs()
    return decide(request, nowUs, this.#findStates(nowUs))
  }

  async release(charges: readonly StoreCharge[]): Promise<void> {
    return this.revoke(charges.map((charge) => ({ charge, isKnown: true })))
  }

  async revoke(releases: readonly Release[]): Promise<void> {
    const nowUs = this.#readClockUs()
    const states = this.#findStates(nowUs)
    for (const { charge, isKnown } of releases) {
      const { key, slot = 0 } = charge
      const held = states.read(key) as ConcurrencyState | undefined
      if (isKnown) {
        if (held) releaseSlot(held, slot)
        continue
      }
      const { state, ttlMs } = revokeSlot(held, slot, toMs(nowUs))
      states.write(key, state, ttlMs)
    }
  }

  async renew(charges: readonly StoreCharge[]): Promise<void> {
    const nowUs = this.#readClockUs()
    const states = this.#findStates(nowUs)
    for (const { key, slot = 0, limits } of charges) {
      const held = states.read(key) as ConcurrencyState | undefined
      if (!held) continue
      const { state, ttlMs } = renewSlot(held, slot, toMs(nowUs), limits[0]?.windowMs ?? 0)
      states.write(key, state, ttlMs)
    }
  }

  async settle(differences: readonly Adjustment[], chargedAtMs: number): Promise<void> {
    const nowUs = this.#readClockUs()
    const states = this.#findStates(nowUs)
    for (const { charge, units } of differences) {
      const state = states.read(charge.key)
      if (state === undefined) continue
      const commit = ALGORITHMS[charge.algorithm].implementation.settle?.(state, charge, nowUs, chargedAtMs, units)
      if (commit) states.write(charge.key, commit.state, commit.ttlMs)
    }
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.states.delete(key)
  }

  async ping(): Promise<void> {}

  get size(): number {
    return this.states.size
  }

  #readClockUs(): number {
    return Math.round(this.now() * 1000)
  }

  #findStates(nowUs: number): States {
    return this.states.advanceTo(toMs(nowUs))
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
