import type { CallContext } from '../runtime/call-context.ts'
import type { Decision, DecisionRequest, StoreCharge } from './charge.ts'
import type { AlgorithmName } from './limits.ts'

export interface Adjustment {
  readonly rule: StoreCharge
  /** Actual units less those charged. */
  readonly units: number
}

/** Slots to be given back, of one rule and request. */
export interface Release {
  readonly rule: StoreCharge
  /** Whether the store has said that it gave them. If not, the call that takes them may still be on its way. */
  readonly isKnown: boolean
}

/** Where counts live. All rules of a request are decided, and charged, at once or not at all. */
export interface Store {
  readonly kind: string
  /** @throws {StoreError} if the store gave no usable answer; `mayHaveRun` says whether it may have charged. */
  decide(request: DecisionRequest, context?: CallContext): Promise<Decision>
  /** Gives back slots that were given; those that are gone already are no error. @throws {StoreError} */
  release(rules: readonly StoreCharge[]): Promise<void>
  /**
   * Gives back many slots at once, and may be repeated. A call that takes some of them and arrives within a minute after
   * this takes none. @throws {StoreError}
   */
  revoke(releases: readonly Release[]): Promise<void>
  /** Moves the deadlines of held slots to a full term from now. @throws {StoreError} */
  renew(rules: readonly StoreCharge[]): Promise<void>
  /**
   * Corrects charges made at `chargedAtMs` (the store's clock) by a difference in units, never below zero used. What
   * has run out since is left alone. Not to be repeated: each call counts.
   * @throws {StoreError}
   */
  settle(differences: readonly Adjustment[], chargedAtMs: number): Promise<void>
  /** Deletes what is known of these keys, as if never charged. @throws {StoreError} */
  forget(keys: readonly string[]): Promise<void>
  /** Rules may name these algorithms from now on, as well as those that they could name before. */
  learn?(algorithms: Iterable<AlgorithmName>): void
  /** @throws {StoreError} if the store is out of reach. */
  ping(): Promise<void>
}

/** The store gave no usable answer. The message holds neither keys nor credentials and may be logged. */
export class StoreError extends Error {
  override readonly name = 'StoreError'
  /** Whether the call may have taken effect nevertheless. */
  readonly mayHaveRun: boolean

  constructor(message: string, { mayHaveRun = true } = {}) {
    super(message)
    this.mayHaveRun = mayHaveRun
  }
}
