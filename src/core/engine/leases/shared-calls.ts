/**
 * The calls of one account, and the requests that wait for them. Requests that find no permit while a call is on its way
 * wait for it; what it does not grant them, the first of them asks for by the next call, for all.
 */
import type { Decision } from '../../model/charge.ts'
import { waitAtMost } from '../../runtime/sleep.ts'

/** A request waits for a call of others to begin for this share of the deadline, and then makes one. */
const PATIENCE_SHARE = 1 / 3

/** Permits that a call has taken together. */
export interface Lease {
  permits: number
  /** The isolate's clock. */
  readonly expiresAtMs: number
  /** The store's clock. */
  readonly chargedAtMs: number
  /** The clock had this generation when the call was sent. */
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

export class SharedCalls {
  #pending = 0
  /** The deadline of the latest call. Then it counts as lost: the request that made it may have been cancelled. */
  #pendingUntilMs = 0
  #latest: SharedCall | undefined
  readonly #waiting: Waiter[] = []

  /** Permits that calls under way ask for in advance. */
  get pending(): number {
    return this.#pending
  }

  dropLost(nowMs: number): void {
    if (nowMs >= this.#pendingUntilMs) this.#pending = 0
  }

  /** @param max requests that may wait at once */
  canWait(max: number): boolean {
    return this.#latest !== undefined && this.#waiting.length < max
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
  begin(more: number, untilMs: number, isForAll = true): SharedCall {
    this.#latest = { waiters: isForAll ? this.#waiting.splice(0) : [], more }
    this.#pending += more
    this.#pendingUntilMs = untilMs
    return this.#latest
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

  /**
   * Ends a call: admits requests that wait by permits that are left, and has the first of the others make the next call.
   * @param takeLeft takes a permit that is left, and lasts for so long
   * @param isFailing true if the latest call has failed: each then makes its own
   */
  end(call: SharedCall, takeLeft: (keepMs: number) => SharedDecision | undefined, isFailing: boolean): void {
    this.#pending = Math.max(0, this.#pending - call.more)
    if (this.#latest === call) this.#latest = undefined
    for (let [first] = this.#waiting; first; [first] = this.#waiting) {
      const decision = takeLeft(first.keepMs)
      if (!decision) break
      this.#waiting.shift()
      first.resolve(decision)
    }
    if (isFailing) for (const each of this.#waiting.splice(0)) each.resolve(undefined)
    else if (!this.#latest) this.#waiting.shift()?.resolve(undefined)
  }
}
