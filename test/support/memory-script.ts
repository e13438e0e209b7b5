import type { ConcurrencyState } from '../../src/core/algorithms/concurrency.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { Release } from '../../src/core/model/store.ts'
import { ExpiringStates } from '../../src/core/store/memory/expiring-states.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'

/** States that tell when they expire. */
class DatedStates extends ExpiringStates {
  readonly expiresAtMs = new Map<string, number>()
  /** Whether what has expired is told as well. */
  isLenient = false
  #nowMs = 0

  override advanceTo(nowMs: number): this {
    this.#nowMs = nowMs
    super.advanceTo(nowMs)
    return this
  }

  override read(key: string): unknown {
    if (this.isLenient) super.advanceTo(Number.NEGATIVE_INFINITY)
    return super.read(key)
  }

  override write(key: string, state: unknown, ttlMs?: number): void {
    super.write(key, state, ttlMs)
    if (ttlMs !== undefined) this.expiresAtMs.set(key, this.#nowMs + ttlMs)
  }
}

/** The store in memory, asked as the script in Redis is. */
export class MemoryScript {
  #nowUs = 0
  readonly #states = new DatedStates()
  readonly #store = new MemoryStore(() => this.#nowUs / 1000, this.#states)

  decide(request: DecisionRequest, nowUs: number): Promise<Decision> {
    this.#nowUs = nowUs
    return this.#store.decide(request)
  }

  /** By all that it has stored, expired or not. */
  async peek(request: DecisionRequest, nowUs: number): Promise<Decision> {
    this.#states.isLenient = true
    const decision = await this.decide({ ...request, action: 'peek' }, nowUs)
    this.#states.isLenient = false
    return decision
  }

  revoke(releases: readonly Release[], nowUs: number): Promise<void> {
    this.#nowUs = nowUs
    return this.#store.revoke(releases)
  }

  renew(charges: readonly StoreCharge[], nowUs: number): Promise<void> {
    this.#nowUs = nowUs
    return this.#store.renew(charges)
  }

  async heldUnits({ key }: StoreCharge, nowUs: number): Promise<ReadonlyMap<number, number>> {
    return findHeldUnits(this.#states.advanceTo(Math.floor(nowUs / 1000)).read(key), nowUs)
  }

  async marks({ key }: StoreCharge): Promise<number> {
    return findMarks(this.#states.read(key))
  }

  async kept(charges: readonly StoreCharge[], nowUs: number): Promise<unknown> {
    const states = this.#states.advanceTo(Math.floor(nowUs / 1000))
    return structuredClone(charges.map(({ key }) => [states.read(key), this.expiresAtMs(key)]))
  }

  expiresAtMs(key: string): number {
    return this.#states.expiresAtMs.get(key) ?? Number.NEGATIVE_INFINITY
  }
}

/** @param state of `concurrency` */
export function findMarks(state: unknown): number {
  return [...((state as ConcurrencyState | undefined)?.slots.values() ?? [])].filter(({ deadlineMs }) => deadlineMs < 0)
    .length
}

/** Units by slot. @param state of `concurrency` */
export function findHeldUnits(state: unknown, nowUs: number): ReadonlyMap<number, number> {
  const { slots = new Map() } = (state ?? {}) as Partial<ConcurrencyState>
  const nowMs = Math.floor(nowUs / 1000)
  return new Map(
    [...slots].filter(([, { deadlineMs }]) => deadlineMs > nowMs).map(([slot, { units }]) => [slot, units]),
  )
}
