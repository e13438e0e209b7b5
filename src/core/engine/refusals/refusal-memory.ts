/** Remembers the refusals of one key: plain data without I/O, one for each status of the `StatusCache`. */
import { countWanted, findMinRemaining, hasPenalty } from '../../algorithms/decide.ts'
import type { DecisionRequest, LimitState, StoreCharge } from '../../model/charge.ts'
import type { Complete } from '../../runtime/lists.ts'

/** Retry-After is never shorter, so a caller that obeys it does not notice. */
const SPAN_MS = 1_000
/** A counter that was reset, or a limit that was raised, takes effect after this at the latest. */
const MAX_AGE_MS = 5_000
/** Refusals that are remembered of a key, each of another number of units. */
const MAX_COSTS = 8

export interface KnownRefusal {
  readonly usage: readonly LimitState[]
  /** Units that the request needed, reserved ones included. */
  readonly units: number
  /** The store's clock. */
  readonly nowMs: number
  /** The store decided between these two. */
  readonly sentAtMs: number
  readonly receivedAtMs: number
  /** It stands until then at most, by the isolate's clock. */
  readonly untilMs: number
  /** It may end before: for certain, it stands only if units return with time alone, and none are used. */
  readonly mayEndEarly: boolean
}

export class RefusalMemory {
  /** From the key's status: any sign that units were used or returned since makes this memory worthless. */
  readonly usedAtReply: number
  readonly #startMs: number
  /** Refusals that the store has decided since then; those of one cost once, if only time ends them. */
  readonly #calls: number
  /** The latest first. When each was decided, the same number of units remained. */
  readonly #latest: readonly KnownRefusal[]

  /** @param before the memory that this one replaces; undefined if it is worthless */
  constructor(latest: KnownRefusal, usedAtReply: number, before: RefusalMemory | undefined) {
    const { sentAtMs, units, usage, mayEndEarly } = latest
    const isTrue = (one: KnownRefusal) =>
      one.units !== units &&
      sentAtMs - one.sentAtMs < MAX_AGE_MS &&
      findMinRemaining(usage) === findMinRemaining(one.usage)
    const others = before ? before.#latest.filter(isTrue).slice(0, MAX_COSTS - 1) : []
    const calls = before ? before.countCalls(sentAtMs) : 0
    const isCounted = before !== undefined && calls > 0 && !mayEndEarly && before.#hasDecided(units)
    this.usedAtReply = usedAtReply
    this.#startMs = before && calls > 0 ? before.#startMs : sentAtMs
    this.#calls = isCounted ? calls : calls + 1
    this.#latest = [latest, ...others]
  }

  /** When the store decides again, at the latest. */
  get spanEndMs(): number {
    return this.#startMs + SPAN_MS
  }

  /** Counts the refusals that the store has decided in this span. */
  countCalls(nowMs: number): number {
    return nowMs >= this.#startMs && nowMs < this.spanEndMs ? this.#calls : 0
  }

  /** Finds a refusal of as many units that stands for certain. */
  findCertain(units: number, nowMs: number): KnownRefusal | undefined {
    return this.#latest.find((one) => one.units === units && !one.mayEndEarly && isCurrent(one, nowMs))
  }

  /**
   * Finds the refusal of the fewest units that are as many as these. If they are more, its wait is too long; so a cost that
   * was decided in this span is decided again when its own refusal has ended.
   */
  findClosest(units: number, nowMs: number): KnownRefusal | undefined {
    const [closest] = this.#latest
      .filter((one) => one.units >= units && isCurrent(one, nowMs))
      .toSorted((a, b) => a.units - b.units)
    if (!closest) return undefined
    const { usage, sentAtMs, mayEndEarly } = closest
    if (!mayEndEarly && this.#hasDecided(units)) return undefined
    // Until its reset, a limit has no more than it had.
    const isLacking = ({ remaining, resetMs }: LimitState) =>
      remaining < units && (mayEndEarly || nowMs < sentAtMs + resetMs)
    return hasPenalty(usage) || usage.some(isLacking) ? closest : undefined
  }

  #hasDecided(units: number): boolean {
    return this.#latest.some((one) => one.units === units && one.sentAtMs >= this.#startMs)
  }
}

/** A clock that stepped back says nothing about how much time has passed. */
function isCurrent({ receivedAtMs, untilMs }: KnownRefusal, nowMs: number): boolean {
  return nowMs >= receivedAtMs && nowMs < untilMs
}

/** @returns how long after its call was sent a refusal stands, unless it ends early */
export function findStandingMs(usage: readonly LimitState[], mayEndEarly: boolean): number {
  // Of the limit with the longest wait, until it has more units. During a penalty, more remaining units change nothing.
  const [decisive] = usage.toSorted((a, b) => b.retryAfterMs - a.retryAfterMs)
  if (!decisive) return 0
  const { retryAfterMs, resetMs, penaltyMs = mayEndEarly ? retryAfterMs : resetMs } = decisive
  return Math.min(penaltyMs, retryAfterMs, mayEndEarly ? Number.POSITIVE_INFINITY : MAX_AGE_MS)
}

/** The limits of an earlier refusal, as they are now. */
export function ageUsage(
  { usage, sentAtMs, receivedAtMs }: KnownRefusal,
  nowMs: number,
  maxWaitMs = Number.POSITIVE_INFINITY,
): LimitState[] {
  // Counted from the later timestamp, so that a caller who waits that long need not wait again.
  const aged = (ms: number) => (ms === 0 ? 0 : Math.max(1, Math.min(maxWaitMs, ms - (nowMs - receivedAtMs))))
  return usage.map((limit) => {
    const { remaining, penaltyMs } = limit
    const resetMs = Math.max(0, limit.resetMs - (nowMs - sentAtMs))
    const state = { remaining, resetMs, retryAfterMs: aged(limit.retryAfterMs) }
    if (penaltyMs === undefined) return state
    return { ...state, penaltyMs: aged(penaltyMs) } satisfies Complete<LimitState>
  })
}

export function findLongestRetryMs(limits: readonly LimitState[]): number {
  return Math.max(0, ...limits.map(({ retryAfterMs }) => retryAfterMs))
}

/** Units that must remain for a request to fit, reserved ones included. */
export function countUnits({ cost, reserved }: StoreCharge, request: DecisionRequest): number {
  return cost * countWanted(request) + reserved
}
