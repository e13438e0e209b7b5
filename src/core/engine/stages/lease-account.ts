/**
 * The permits of one identity in one isolate, how it uses them, and which of its requests share a call. Requests that find
 * no permit while a call is on its way wait for it, and the next call asks for all of them.
 */
import type { Decision, LimitState } from '../../model/charge.ts'
import { StoreError } from '../../model/store.ts'
import { waitAtMost } from '../../runtime/sleep.ts'
import type { LeaseTerms } from './lease-size.ts'

/** A pace is a mean of about so many gaps between requests: fewer vary by chance, more hide a change. */
const PACE_GAPS = 64
/** A clock that stands still between inputs shows many requests at once, so they are spread over this time at least. */
const MIN_PACE_MS = 10

/** A request waits for a call of others to begin for this share of the deadline, and then makes one. */
const PATIENCE_SHARE = 1 / 3

/** Permits that were taken together. */
export interface Lease {
  permits: number
  /** The isolate's clock. */
  readonly expiresAtMs: number
  /** The store's clock. */
  readonly chargedAtMs: number
  /** Generation of the accounts when the call was sent: a step back of the clock begins another one. */
  readonly generation: number
}

/** A decision that a call has brought, or a permit at hand. */
export interface SharedDecision extends Decision {
  /** Its permit may go back there if it is not used. */
  readonly lease?: Lease | undefined
}

interface Waiter {
  /** Its permit must last for so long. */
  readonly keepMs: number
  /** @param decision undefined: the request makes the next call */
  resolve(decision: SharedDecision | undefined): void
  reject(error: unknown): void
}

/** A call on its way. */
export interface SharedCall {
  /** The requests for which it is made, in addition to that which makes it. */
  readonly waiters: Waiter[]
  /** Permits that it asks for in advance. */
  readonly more: number
}

/** An outcome that is repeated until then, without a call. */
export interface RepeatedOutcome {
  readonly outcome: Decision | StoreError
  readonly sentAtMs: number
  untilMs: number
}

/** All requests of an isolate for one identity share its account. */
export class LeaseAccount {
  /** An account of an earlier generation has no permits any more; requests may still wait in it. */
  readonly generation: number
  /** Permits that calls under way ask for. */
  pending = 0
  /** Permits used, and permits that expired, in about a longest window: older ones fade away. */
  used = 0
  expired = 0
  repeated: RepeatedOutcome | undefined
  /** The deadline of the latest call. Then it counts as lost: the request that made it may have been cancelled. */
  #pendingUntilMs = 0
  #call: SharedCall | undefined
  /** Requests that wait for a call of another. */
  readonly #waiting: Waiter[] = []
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
    if (nowMs >= this.#pendingUntilMs) this.pending = 0
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

  /** Returns a permit that was not used. */
  giveBack(lease: Lease): void {
    this.used = Math.max(0, this.used - 1)
    lease.permits++
    if (!this.#leases.includes(lease)) this.#leases.unshift(lease)
  }

  /** @param max requests that may wait at once */
  canWait(max: number): boolean {
    return this.#call !== undefined && this.#waiting.length < max
  }

  /**
   * Waits for the decision that a call of another request brings.
   * @param timeoutMs deadline of a call
   * @param keepMs time for which the permit must last
   * @returns undefined if this request has to make a call itself: it is its turn, or it has waited for too long
   * @throws {StoreError} if the call for it has failed
   */
  async wait(timeoutMs: number, keepMs: number): Promise<SharedDecision | undefined> {
    const waiting = this.#waiting
    let waiter: Waiter | undefined
    const decided = new Promise<SharedDecision | undefined>((resolve, reject) => {
      waiter = { keepMs, resolve, reject }
      waiting.push(waiter)
    })
    for (const patienceMs of [PATIENCE_SHARE * timeoutMs, timeoutMs]) {
      const decision = await waitAtMost(decided, patienceMs)
      if (decision) return decision
      const at = waiting.indexOf(waiter as Waiter)
      if (at >= 0) {
        waiting.splice(at, 1)
        return undefined
      }
      // A call for it is on its way, or it is its turn.
    }
    return undefined
  }

  /** Begins a call for all that wait, or only one that they may profit by. @param more permits for requests to come */
  beginCall(more: number, untilMs: number, isForAll = true): SharedCall {
    this.#call = { waiters: isForAll ? this.#waiting.splice(0) : [], more }
    this.pending += more
    this.#pendingUntilMs = untilMs
    return this.#call
  }

  /**
   * A refusal is for all that wait for a call; else as many are admitted as there are permits, and the others wait for the
   * next one.
   * @param permits those for the requests that wait
   * @param isForAll true if it has permits also for those that have begun to wait since
   */
  share({ waiters }: SharedCall, decision: SharedDecision, permits: number, isForAll: boolean): void {
    if (isForAll) waiters.push(...this.#waiting.splice(0))
    for (const each of waiters.splice(0, decision.granted === 0 ? waiters.length : permits)) each.resolve(decision)
    this.#waiting.unshift(...waiters)
  }

  fail({ waiters }: SharedCall, error: unknown): void {
    for (const each of waiters) each.reject(error)
  }

  endCall(call: SharedCall): void {
    this.pending = Math.max(0, this.pending - call.more)
    if (this.#call === call) this.#call = undefined
  }

  /**
   * Admits requests that wait by permits that are left, and has the first of the others make the next call.
   * @param isCurrent false if its permits have been dropped
   * @param isFailing true if the latest call has failed: each then makes its own
   */
  serveWaiting(isCurrent: boolean, isFailing: boolean, now: () => number): void {
    for (let [first] = this.#waiting; first && isCurrent; [first] = this.#waiting) {
      const nowMs = now()
      const lease = this.take(nowMs, nowMs + first.keepMs)
      if (!lease) break
      this.#waiting.shift()
      first.resolve({ granted: 1, nowMs: lease.chargedAtMs, usage: [], lease })
    }
    if (isFailing) for (const each of this.#waiting.splice(0)) each.resolve(undefined)
    else if (!this.#call) this.#waiting.shift()?.resolve(undefined)
  }
}

/** @throws {StoreError} if that was the outcome */
export function repeatOutcome({ outcome, sentAtMs, untilMs }: RepeatedOutcome, nowMs: number): Decision {
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
