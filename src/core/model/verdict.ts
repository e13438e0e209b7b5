/** Verdicts about requests, and the limits that they report. */
import type { Complete } from '../runtime/lists.ts'
import type { Charge, Decision, LimitState } from './charge.ts'
import type { CostTerm, ReadCost } from './cost.ts'
import type { Limit } from './limits.ts'
import type { Policy, PolicyLimit, RequestPolicy, ResponseHead } from './policy.ts'

declare const isWhole: unique symbol

/** Whole milliseconds, as every wait is told: clocks and means may have fractions of them. */
export type WholeMs = 0 | (number & { readonly [isWhole]: true })

/** Rounds up, so that a caller who waits for as long need not wait again. */
export function toWholeMs(ms: number): WholeMs {
  return Math.ceil(ms) as WholeMs
}

/** One limit of one policy after a decision, as the library reports it. */
export interface LimitStatus extends Pick<PolicyLimit, 'name' | 'limit' | 'windowMs'>, LimitState {
  /** Name of the policy. */
  readonly policy: string
}

/** One limit after a decision, with its policy for refusals and statistics. */
export interface ReportedLimit<P extends Policy = RequestPolicy> extends PolicyLimit, LimitState {
  readonly policy: P
  readonly resetMs: WholeMs
  readonly retryAfterMs: WholeMs
  readonly penaltyMs?: WholeMs
  /** The cost would fit if nothing were reserved for higher priorities. */
  readonly isReserve: boolean
}

/** Reports the limits of all charges, in order, without those of an unlimited caller. */
export function reportLimits<P extends Policy>(
  charges: readonly Charge<P>[],
  usage: Decision['usage'],
): readonly ReportedLimit<P>[] {
  const reports: ReportedLimit<P>[] = []
  for (const [index, { policy, limits, reserved, cost, isUnlimited }] of charges.entries()) {
    if (isUnlimited) continue
    for (const [at, state] of (usage[index] ?? []).entries()) {
      const { remaining, resetMs, retryAfterMs, penaltyMs } = toReported(state)
      // While the store is unavailable, the limit of the charge is a share of the policy's.
      const { limit, windowMs, calendar } = limits[at] as Limit
      const report = {
        policy,
        name: policy.limits[at]?.name ?? policy.name,
        limit,
        windowMs,
        calendar,
        isReserve: reserved > 0 && remaining >= cost,
        // Units reserved for higher priorities do not remain for this request.
        remaining: Math.max(0, remaining - reserved),
        resetMs: toWholeMs(resetMs),
        retryAfterMs: toWholeMs(retryAfterMs),
      }
      if (penaltyMs === undefined) reports.push(report)
      else reports.push({ ...report, penaltyMs: toWholeMs(penaltyMs) } satisfies Complete<LimitState>)
    }
  }
  return reports
}

/** A limit as the caller sees it: during a penalty, nothing remains. */
function toReported(limit: LimitState): LimitState {
  const { penaltyMs, remaining, resetMs } = limit
  if (penaltyMs === undefined) return limit
  return { ...limit, remaining: 0, resetMs: remaining > 0 ? penaltyMs : Math.max(resetMs, penaltyMs) }
}

export function toLimitStatus(report: ReportedLimit<Policy>): LimitStatus {
  const { policy, name, limit, windowMs, remaining, resetMs, retryAfterMs, penaltyMs } = report
  const status = { policy: policy.name, name, limit, windowMs, remaining, resetMs, retryAfterMs }
  return penaltyMs === undefined ? status : ({ ...status, penaltyMs } satisfies Complete<LimitStatus>)
}

/** How requests were decided while the store was unavailable. */
export const DEGRADATIONS = {
  local: { refusesAll: false },
  open: { refusesAll: false },
  'local, open': { refusesAll: false },
  closed: { refusesAll: true },
} as const satisfies Readonly<Record<string, { readonly refusesAll: boolean }>>

export type Degradation = keyof typeof DEGRADATIONS

/** Slots of `concurrency` policies that an admitted request holds. */
export interface SlotHold {
  /** How often the slots are to be renewed: three times before the first of them would end. */
  readonly renewEveryMs: number
  /** @throws {StoreError} the slots then stay held until their deadline */
  release(): Promise<void>
  /** Extends the deadline to the full time from now. @throws {StoreError} */
  renew(): Promise<void>
}

/** Charges that depend on the response to a request. */
export interface Settlement {
  /** The parts of the response that costs are read from. */
  readonly terms: readonly CostTerm[]
  /** Bytes of the body of the request, where a term counts them: who passes it on sets them. */
  requestBytes?: number
  /** True if the response is to be aborted when the client leaves. */
  readonly isAborted: boolean
  /** Changes the headers of the request so that the API's answer can be read. */
  prepare(headers: Headers, method: string): void
  /**
   * Finds by its head what the response counts for.
   * @param head undefined if the API has given none
   * @param context the argument of the application's own functions
   * @param mayHaveRun the API was asked, and may have used what it had no time to tell
   * @returns undefined if nothing is charged or corrected
   */
  readHead(head: ResponseHead | undefined, context: unknown, mayHaveRun?: boolean): ResponseCost | undefined
}

export interface ResponseCost {
  readonly terms: readonly CostTerm[]
  /** The limits after what the head alone has cost. */
  readonly limits: readonly ReportedLimit[]
  /** Charges what has been measured by now beyond what was charged. @throws {StoreError} */
  advance(read: ReadCost): Promise<void>
  /**
   * Makes the charges that follow a response, whatever remains, and corrects those made before it. To be called once, and
   * last. @throws {StoreError} the charges then stay
   */
  settle(read: ReadCost): Promise<void>
}

export interface Blocked {
  readonly outcome: 'blocked'
  readonly status: number
  /** Text for the caller. */
  readonly reason?: string
  /** End of the block, milliseconds since the Unix epoch; undefined: permanent. */
  readonly untilMs?: number
  /** Whom the rule is about, as operators read it; undefined if it is not known which one applies. */
  readonly rule?: string
}

export type Uncharged =
  | { readonly outcome: 'unidentified'; readonly status: number; readonly policy: RequestPolicy }
  /** 413: it costs more than a request may. 400: its header, which is named then, holds no cost. */
  | {
      readonly outcome: 'invalid_cost'
      readonly status: 400 | 413
      readonly header: string | undefined
      readonly max: number
    }

export interface Admitted {
  readonly outcome: 'admitted'
  /** Empty if no policy applies, or if the store is unavailable and the fallback of all policies is `open`. */
  readonly limits: readonly ReportedLimit[]
  /** To be released when the response has ended. */
  readonly hold?: SlotHold
  /** Set if something is charged, or corrected, by what the response tells. */
  readonly settlement?: Settlement
  readonly degraded?: Degradation
}

/**
 * The longest wait for a slot that a refusal names, and the least that Retry-After can say. Nothing tells when a slot is
 * given back, which is mostly long before the deadline that frees it for certain.
 */
export const SLOT_RETRY_MS = 1_000

/** A refusal is data, of which the gateway and middleware make a response. */
export type Refused = (
  | {
      /** `deprioritized`: the remaining units are reserved for higher priorities. */
      readonly outcome: 'limited' | 'deprioritized'
      readonly limits: readonly ReportedLimit[]
      /** The limits that refused: at least one. */
      readonly violated: readonly ReportedLimit[]
      /**
       * Time after which the same request is admitted if nothing else is charged, at least 1; for slots, a second at most,
       * because one is mostly free long before its deadline.
       */
      readonly retryAfterMs: WholeMs
    }
  /** The upstream is overloaded. */
  | { readonly outcome: 'shed'; readonly retryAfterMs: WholeMs }
  | Uncharged
  /** The upstream may read its path as another one, to which other policies apply. */
  | { readonly outcome: 'ambiguous_path' }
  | Blocked
  /** The store is unavailable, and the fallback of a policy is `closed`. */
  | { readonly outcome: 'unavailable' }
) & { readonly degraded?: Degradation }

export type Verdict = Admitted | Refused
