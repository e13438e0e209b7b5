import type { AlgorithmName } from '../limit/algorithm.ts'
import type { WaitUntil } from './call-context.ts'

/** One limit over one span of time, e.g. 120 per 60,000 ms. */
export interface Tier {
  /** Units admitted at most, an integer from 1. */
  readonly limit: number
  /** Length of the window in milliseconds, an integer from 1. */
  readonly windowMs: number
}

/** What one policy asks of the store for one identity. */
export interface Rule {
  /** Full name of the state, `<prefix>:<policy>:<algorithm letter>:{<identity>}`; no two rules of a request share one. */
  readonly key: string
  readonly algorithm: AlgorithmName
  readonly tiers: readonly Tier[]
  /** Units that one permit costs, an integer from 1, at most the smallest limit. */
  readonly cost: number
  /** False for a shadow rule: it is charged where it can be, but refuses nothing. */
  readonly enforced: boolean
  /** Units of its one tier that this request must leave to others; 0 for none. */
  readonly reserved: number
  /** `token-bucket`: units that the bucket holds, where it is not its limit. */
  readonly burst?: number
  /** `concurrency`: number under which the request holds its slots, unlike any other's. */
  readonly slot?: number
  /** It holds only where a `sliding-window` rule before it finds no state: where the request brings a new identity. */
  readonly isForNewcomers?: boolean
  /** What is charged may be corrected later. */
  readonly isSettled?: boolean
}

export interface DecisionRequest {
  /** `all` grants every permit or none, `partial` as many as fit, `peek` answers as `all` would and charges nothing. */
  readonly mode: 'all' | 'partial' | 'peek'
  /** Permits asked for, an integer from 1. */
  readonly permits: number
  /**
   * `sliding-window`: how long the permits may be spent after the decision, at most a tenth of the shortest window; they
   * are counted as if spent when this has passed. Left out, they are spent at once.
   */
  readonly leaseMs?: number
  readonly rules: readonly Rule[]
}

/** What a rule says of one of its tiers, after the decision. */
export interface TierUsage {
  /** Units left, reserved ones included. */
  readonly remaining: number
  /** Milliseconds until more than `remaining` can be used. */
  readonly resetMs: number
  /** Milliseconds until the asked cost fits (in `partial` mode, that of one permit); 0 if it does now. */
  readonly retryAfterMs: number
}

export interface StoreDecision {
  /** Permits granted, 0 to the number asked for. */
  readonly granted: number
  /** The store's clock at the decision, milliseconds since the Unix epoch. */
  readonly nowMs: number
  /** For each rule, in order, its tiers, in order; none for a rule that was not asked. */
  readonly usage: readonly (readonly TierUsage[])[]
}

export interface Difference {
  readonly rule: Rule
  /** Actual units less those charged. */
  readonly units: number
}

/** Slots to be given back, of one rule and request. */
export interface Release {
  readonly rule: Rule
  /** Whether the store has said that it gave them. If not, the call that takes them may still be on its way. */
  readonly isKnown: boolean
}

/** Where counts live. All rules of a request are decided, and charged, at once or not at all. */
export interface Store {
  readonly kind: 'memory' | 'redis'
  /** @throws {StoreError} if the store gave no usable answer; `mayHaveRun` says whether it may have charged. */
  decide(request: DecisionRequest, waitUntil?: WaitUntil): Promise<StoreDecision>
  /** Gives back slots that were given; those that are gone already are no error. @throws {StoreError} */
  release(rules: readonly Rule[]): Promise<void>
  /**
   * Gives back many slots at once, and may be repeated. A call that takes some of them and arrives within a minute after
   * this takes none. @throws {StoreError}
   */
  revoke(releases: readonly Release[]): Promise<void>
  /** Moves the deadlines of held slots to a whole one from now. @throws {StoreError} */
  renew(rules: readonly Rule[]): Promise<void>
  /**
   * Corrects charges made at `chargedAtMs` (the store's clock) by a difference in units, down to nothing at most.
   * What has run out since is left alone. Not to be repeated: each call counts.
   * @throws {StoreError}
   */
  settle(differences: readonly Difference[], chargedAtMs: number): Promise<void>
  /** @throws {StoreError} if the store is out of reach. */
  ping(): Promise<void>
}

/** The store gave no usable answer. Its message holds neither keys nor credentials and may be logged. */
export class StoreError extends Error {
  override readonly name = 'StoreError'
  /** Whether the call may have had its effect all the same. */
  readonly mayHaveRun: boolean

  constructor(message: string, { mayHaveRun = true } = {}) {
    super(message)
    this.mayHaveRun = mayHaveRun
  }
}
