import type { LimitState } from './charge.ts'
import type { Limit } from './limits.ts'
import type { PolicyLimit, RequestPolicy } from './policy.ts'

/** How one limit of one policy stands after a decision, as it is told outside. */
export interface LimitStatus extends Limit, LimitState {
  /** Name of the policy. */
  readonly policy: string
  /** `<policy>-<window>`, e.g. `default-1m`; of `concurrency`, which has no window, the policy's own. */
  readonly name: string
}

/** The same for a request: with all that refusals and statistics ask of the policy. */
export interface ReportedLimit extends PolicyLimit, LimitState {
  readonly policy: RequestPolicy
  /** The cost would fit if nothing were reserved for higher priorities. */
  readonly isReserve: boolean
}

/** How requests are decided while the store gives no answer. */
export type Degradation = 'local' | 'open' | 'closed' | 'local, open'

/** Slots of `concurrency` policies that an admitted request holds. */
export interface SlotHold {
  /** Milliseconds after which the slots free themselves unless renewed; the shortest of all. */
  readonly deadlineMs: number
  /** @throws {StoreError} the slots then free themselves at their deadline */
  release(): Promise<void>
  /** Moves the deadline to a full term from now. @throws {StoreError} */
  renew(): Promise<void>
}

/** Charges whose actual cost the upstream's response reports. */
export interface Settlement {
  /**
   * Makes up the difference between the charge and the cost in the headers; a header that is missing, or no integer
   * from 0, says nothing. To be called once.
   * @throws {StoreError} the estimate then stands
   */
  settle(headers: Pick<Headers, 'get'>): Promise<void>
}

/** Charges that wait for the response, which says whether the request has failed. */
export interface Failures {
  /** @returns undefined if a response of this status is a failure to no policy */
  of(status: number): Failure | undefined
}

export interface Failure {
  /** The limits as they stand with it. */
  readonly tiers: readonly ReportedLimit[]
  /** Charges it, whatever is left of the limits by now. To be called once. */
  charge(): Promise<void>
}

/** The request is refused, whatever its limits. */
export interface Blocked {
  readonly kind: 'blocked'
  readonly status: number
  /** For the caller to read. */
  readonly reason?: string
  /** When it ends, milliseconds since the Unix epoch; left out, it does not. */
  readonly untilMs?: number
}

/** The request cannot be charged. */
export type Uncharged =
  /** The caller lacks what a policy counts by. */
  | { readonly kind: 'unidentified'; readonly status: number; readonly policy: RequestPolicy }
  /** The request names an invalid cost. */
  | { readonly kind: 'bad-cost'; readonly header: string; readonly max: number }

export interface Admitted {
  readonly kind: 'admitted'
  /** Empty if no policy applies, or if the store is away and all that do are then `open`. */
  readonly tiers: readonly ReportedLimit[]
  /** To be released when the exchange has ended. */
  readonly hold?: SlotHold
  readonly settlement?: Settlement
  readonly failures?: Failures
  readonly degraded?: Degradation
}

/** A refusal is data: what lies around the limiter makes a response of it. */
export type Refused = (
  | {
      readonly kind: 'limited'
      readonly tiers: readonly ReportedLimit[]
      /** The limits that refused: at least one. */
      readonly violated: readonly ReportedLimit[]
      /** Milliseconds after which the same request will be admitted if nobody else spends; at least 1. */
      readonly retryAfterMs: number
    }
  /** The remaining units are reserved for higher priorities. */
  | { readonly kind: 'reserved'; readonly tiers: readonly ReportedLimit[]; readonly retryAfterMs: number }
  /** The upstream is overloaded, and the request is not of the highest priority. */
  | { readonly kind: 'shed'; readonly retryAfterMs: number }
  | Uncharged
  /** The API may read its path as another one, to which other policies apply. */
  | { readonly kind: 'ambiguous' }
  | Blocked
  /** The store is away, and a policy is then `closed`. */
  | { readonly kind: 'unavailable' }
) & { readonly degraded?: Degradation }

/** The outcome of a request. */
export type Verdict = Admitted | Refused
