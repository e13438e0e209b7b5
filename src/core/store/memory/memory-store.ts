/** Decides charges in this process's memory. */
import { applyCorrection, type Correction } from '../../algorithms/corrections.ts'
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
export class MemoryStore implements Store {
  readonly kind = 'memory'
  protected readonly states: ExpiringStates
  protected readonly now: () => number

  constructor(now: () => number, states = new ExpiringStates()) {
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
    this.#correct(charges.map((charge) => ({ kind: 'release', charge })))
  }

  async revoke(releases: readonly Release[]): Promise<void> {
    this.#correct(releases.map(({ charge, isKnown }) => ({ kind: isKnown ? 'release' : 'revoke', charge })))
  }

  async renew(charges: readonly StoreCharge[]): Promise<void> {
    this.#correct(charges.map((charge) => ({ kind: 'renew', charge })))
  }

  async settle(differences: readonly Adjustment[], chargedAtMs: number): Promise<void> {
    this.#correct(differences.map((difference) => ({ kind: 'settle', ...difference, chargedAtMs })))
  }

  async delete(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.states.delete(key)
  }

  async ping(): Promise<void> {}

  get size(): number {
    return this.states.size
  }

  #correct(corrections: readonly Correction[]): void {
    const nowUs = this.#advance()
    for (const correction of corrections) {
      const { key } = correction.charge
      const commit = applyCorrection(correction, this.states.read(key), nowUs)
      if (commit) this.states.write(key, commit.state, commit.ttlMs)
    }
  }

  /** Sets the states to now. @returns microseconds */
  #advance(): number {
    const clockMs = this.now()
    const nowMs = Math.floor(clockMs)
    this.states.advanceTo(nowMs)
    // A part of a millisecond stays one, so that dates are rounded up and the time down, also with a clock of fractions.
    const partUs = clockMs === nowMs ? 0 : Math.min(999, Math.max(1, Math.round((clockMs - nowMs) * 1000)))
    return nowMs * 1000 + partUs
  }
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
