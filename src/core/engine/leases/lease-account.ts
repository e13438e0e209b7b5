/** The permits of one identity in one isolate, how it uses them, and the calls for more that its requests share. */
import type { Decision, LimitState } from '../../model/charge.ts'
import { StoreError } from '../../model/store.ts'
import type { LeaseTerms } from './lease-size.ts'
import { type Lease, SharedCalls, type SharedDecision } from './shared-calls.ts'

/** A pace is a mean of about so many gaps between requests: fewer vary by chance, more hide a change. */
const PACE_GAPS = 64
/** A clock that stands still between inputs shows many requests at once, so they are spread over this time at least. */
const MIN_PACE_MS = 10

/** An outcome that is repeated until then, without a call. */
export interface RepeatedOutcome {
  readonly outcome: Decision | StoreError
  readonly sentAtMs: number
  untilMs: number
}

/** All requests of an isolate for one identity share its account. */
export class LeaseAccount {
  /** The clock had this generation. In an account of an earlier one, requests may still wait, but no permits are left. */
  readonly generation: number
  readonly calls = new SharedCalls()
  /** Permits used, and permits that expired, in about a longest window: older ones fade away. */
  used = 0
  expired = 0
  /** The latest call had this outcome, if it is to be repeated. */
  repeated: RepeatedOutcome | undefined
  readonly #leases: Lease[] = []
  #seenAtMs = Number.NEGATIVE_INFINITY
  /** How many gaps the mean is of so far. */
  #gaps = 0
  #gapMs = 0

  constructor(generation: number) {
    this.generation = generation
  }

  /** Records a request. After a pause that is longer than any lease, the pace is measured anew. */
  see(nowMs: number, { maxLeaseMs, longestWindowMs }: LeaseTerms): void {
    const elapsedMs = nowMs - this.#seenAtMs
    this.#seenAtMs = nowMs
    const kept = Math.exp(-elapsedMs / longestWindowMs)
    this.used *= kept
    this.expired *= kept
    this.calls.dropLost(nowMs)
    this.#gaps = elapsedMs > maxLeaseMs ? 0 : Math.min(this.#gaps + 1, PACE_GAPS)
    if (this.#gaps === 0) return
    const burstMs = Math.min(elapsedMs, PACE_GAPS * Math.max(1, this.#gapMs))
    this.#gapMs += (burstMs - this.#gapMs) / this.#gaps
  }

  /** Requests a millisecond to count on: a standard deviation fewer than were seen. */
  get pace(): number {
    const gaps = this.#gaps
    return (gaps - Math.sqrt(gaps)) / Math.max(MIN_PACE_MS, gaps * this.#gapMs)
  }

  countLeft(atMs: number): number {
    let left = 0
    for (const { permits, expiresAtMs } of this.#leases) left += atMs < expiresAtMs ? permits : 0
    return left
  }

  /** @returns permits that are left then, or on their way */
  countUnused(atMs: number): number {
    return this.countLeft(atMs) + this.calls.pending
  }

  add(lease: Lease): void {
    this.#leases.push(lease)
  }

  /** Uses a permit that lasts until then. @returns its lease; undefined if there is none */
  take(nowMs: number, untilMs = nowMs): Lease | undefined {
    for (let [lease] = this.#leases; lease; [lease] = this.#leases) {
      if (lease.permits > 0 && nowMs < lease.expiresAtMs) break
      this.expired += lease.permits
      this.#leases.shift()
    }
    const lease = this.#leases.find(({ permits, expiresAtMs }) => permits > 0 && untilMs < expiresAtMs)
    if (!lease) return undefined
    lease.permits--
    this.used++
    return lease
  }

  /** Decides a request that has waited by a permit that is left. @param keepMs time for which it must last */
  decide(nowMs: number, keepMs: number): SharedDecision | undefined {
    const lease = this.take(nowMs, nowMs + keepMs)
    return lease && { granted: 1, nowMs: lease.chargedAtMs, usage: [], lease }
  }

  /** @returns the latest refusal, if it is repeated @throws {StoreError} the latest failure, if that is */
  repeat(nowMs: number): Decision | undefined {
    return this.repeated && nowMs < this.repeated.untilMs ? repeatOutcome(this.repeated, nowMs) : undefined
  }

  /** Returns a permit that was not used. */
  giveBack(lease: Lease): void {
    this.used = Math.max(0, this.used - 1)
    lease.permits++
    if (!this.#leases.includes(lease)) this.#leases.unshift(lease)
  }
}

/** @throws {StoreError} if that was the outcome */
function repeatOutcome({ outcome, sentAtMs, untilMs }: RepeatedOutcome, nowMs: number): Decision {
  if (outcome instanceof StoreError) throw outcome
  const elapsedMs = Math.max(0, nowMs - sentAtMs)
  const age = ({ resetMs, retryAfterMs, ...limit }: LimitState): LimitState => ({
    ...limit,
    resetMs: Math.max(0, resetMs - elapsedMs),
    // Before its pause ends, this isolate would only repeat itself.
    retryAfterMs: retryAfterMs === 0 ? 0 : Math.max(1, retryAfterMs - elapsedMs, untilMs - nowMs),
  })
  return { ...outcome, nowMs: outcome.nowMs + elapsedMs, usage: outcome.usage.map((limits) => limits.map(age)) }
}
