/** The interface of every store, and its error. */
import type { CallContext } from '../runtime/call-context.ts'
import type { Log } from '../runtime/log.ts'
import type { Decision, DecisionRequest, StoreCharge } from './charge.ts'

export interface Adjustment {
  readonly charge: StoreCharge
  /** Actual units less those charged. */
  readonly units: number
}

/** Slots to release, of one charge and request. */
export interface Release {
  readonly charge: StoreCharge
  /** False if the store has not confirmed the slots: the call that takes them may still be on its way. */
  readonly isKnown: boolean
}

/** Closed: calls are made. Open: none is. Half-open: one is, and its result decides. */
export type Circuit = 'closed' | 'open' | 'half-open'

/** One of several databases, or a node of a cluster. */
export interface StorePlace {
  readonly circuit: Circuit
  /** True if its circuit would let the next decision call it. */
  readonly mayCall: boolean
  /** An answer half-opens its circuit. @throws {StoreError} if it cannot be reached */
  ping(): Promise<void>
}

/** One of several databases that count together. */
export interface Shard {
  /** It decides what the shard counts, so it stays the same when its address or its position in a list changes. */
  readonly name: string
  /**
   * `joining`: it is about to count a share; `leaving`: others are about to count its share. Meanwhile what moves is charged
   * in both places, all or nothing, so that after a longest window the next place knows all of it. Default: neither.
   */
  readonly state?: 'joining' | 'leaving' | undefined
}

/** Several places, each with a circuit of its own. */
export interface StorePlaces {
  /** The worst one. */
  readonly circuit: Circuit
  /** True if the next decision may call all of them. */
  readonly mayCall: boolean
  readonly byName: ReadonlyMap<string, StorePlace>
}

/** Holds counts. All charges of a request are decided and charged at once. */
export interface Store {
  readonly kind: string
  /** Undefined: it is one place, whose circuit is the engine's. */
  readonly places?: StorePlaces | undefined
  /** @throws {StoreError} without a usable answer; it may have charged if `mayHaveRun` */
  decide(request: DecisionRequest, context?: CallContext): Promise<Decision>
  /** True if these charges take more than one call, which they never do without this method. */
  readonly isSplit?: ((this: void, charges: readonly StoreCharge[]) => boolean) | undefined
  /** Releases slots; missing ones are no error. @throws {StoreError} */
  release(charges: readonly StoreCharge[]): Promise<void>
  /**
   * Releases many slots at once, and may be repeated. A call that takes one of them but arrives within a minute after
   * this takes none. @throws {StoreError}
   */
  revoke(releases: readonly Release[]): Promise<void>
  /** Extends the deadlines of held slots to their full time from now. @throws {StoreError} */
  renew(charges: readonly StoreCharge[]): Promise<void>
  /**
   * Corrects charges made at `chargedAtMs` (the store's clock) by a difference in units, never below zero used. Expired
   * windows stay unchanged. Not to be repeated: each call counts.
   * @throws {StoreError}
   */
  settle(differences: readonly Adjustment[], chargedAtMs: number): Promise<void>
  /** Deletes these keys, as if never charged. @throws {StoreError} */
  delete(keys: readonly string[]): Promise<void>
  /** @throws {StoreError} if the store cannot be reached */
  ping(): Promise<void>
}

/** The store gave no usable answer. The message holds neither keys nor credentials and may be logged. */
export class StoreError extends Error {
  override readonly name = 'StoreError'
  /** True if the call may have taken effect. */
  readonly mayHaveRun: boolean

  constructor(message: string, { mayHaveRun = true } = {}) {
    super(message)
    this.mayHaveRun = mayHaveRun
  }
}

/** Logs a failure of work that goes on after the response. */
export function logFailure(work: Promise<unknown>, log: Log): Promise<unknown> {
  return work.catch((error: unknown) => {
    log('error', { event: 'background_error', message: error instanceof StoreError ? error.message : 'failed' })
  })
}
