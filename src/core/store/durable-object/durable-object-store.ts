/** Decides charges in Durable Objects, one for each key: sends the messages of a negotiation, and gives up in time. */
import type { Correction } from '../../algorithms/corrections.ts'
import { ACTIONS, type Decision, type DecisionRequest, type StoreCharge } from '../../model/charge.ts'
import { type Adjustment, type Release, type Store, StoreError } from '../../model/store.ts'
import { type CallContext, Deadlines, TOO_LATE } from '../../runtime/call-context.ts'
import { drawNumber } from '../../runtime/hash.ts'
import { groupBy } from '../../runtime/lists.ts'
import type { Backend } from '../backend.ts'
import { ChargeTimes } from '../charge-times.ts'
import { type Conclusion, Negotiation, type To } from './negotiation.ts'
import {
  type CommitOrAbort,
  callWithin,
  createCallError,
  type ObjectNamespace,
  openObjects,
  type PreparedCharge,
  type RemoteObjects,
  TOO_LATE_MESSAGE,
} from './objects.ts'

export interface DurableObjectStoreOptions {
  readonly objects: RemoteObjects
  /** Deadline of a decision, in milliseconds, at most a minute. */
  readonly timeoutMs: number
}

/** An object may wait for the ends of other decisions for this share of the deadline. */
const PATIENT_SHARE = 1 / 4
const MAX_PATIENCE_MS = 1_000
const BACKGROUND_TIMEOUT_MS = 10_000
/** A closing that failed is sent again after this, and after twice as long each time. */
const FIRST_PAUSE_MS = 50
/** After the pause of this length it is left to the objects. */
const LAST_PAUSE_MS = 6_400
const PING_KEY = 'ping'

/** Exact limits in Durable Objects, one for each key. docs/how-stores-work.md describes the protocol. */
export class DurableObjectStore implements Store {
  readonly kind = 'durable-object'
  readonly #objects: RemoteObjects
  readonly #timeoutMs: number
  readonly #patienceMs: number
  readonly #times = new ChargeTimes()

  constructor({ objects, timeoutMs }: DurableObjectStoreOptions) {
    this.#objects = objects
    this.#timeoutMs = timeoutMs
    this.#patienceMs = Math.min(timeoutMs * PATIENT_SHARE, MAX_PATIENCE_MS)
  }

  async decide(request: DecisionRequest, context?: CallContext): Promise<Decision> {
    const isAbandoned = () => context?.isClientGone?.() === true && isForItsResponse(request)
    if (isAbandoned()) return waitForever()
    const charges = request.charges.map(toObjectCharge)
    const negotiation = new Negotiation({ ...request, charges }, drawNumber(), this.#patienceMs)
    let isOver = false
    const startedMs = Date.now()
    const work = this.#negotiate(negotiation, () => isOver || isAbandoned())
    // If the client goes away, the platform would end it before it gives back what it has reserved.
    if (!negotiation.isFinal) context?.waitUntil(work.catch(() => {}))
    let conclusion: Conclusion | typeof TOO_LATE
    try {
      conclusion = await (context?.deadlines ?? Deadlines.createForOne()).waitWithin(this.#timeoutMs, work)
      // Queued answers may come before the timer: asking for others would take as long again.
      const isLate = Date.now() - startedMs > this.#timeoutMs && isForItsResponse(request)
      if (conclusion === TOO_LATE || (isLate && conclusion.decision.granted > 0)) {
        throw new StoreError(TOO_LATE_MESSAGE)
      }
    } catch (error) {
      isOver = true
      this.#closeLater(negotiation.cancel(), context)
      if (isAbandoned()) return waitForever()
      throw error
    }
    const { decision, kept, votedAtMs } = conclusion
    if (isAbandoned()) {
      // The rest has been given back already.
      const cancels = kept.map(({ message: { id }, ...to }) => ({ ...to, message: { id, permits: 0 } }))
      this.#closeLater(cancels, context)
      return waitForever()
    }
    this.#closeLater(kept, context)
    for (const [key, atMs] of votedAtMs) this.#times.remember(key, decision.nowMs, atMs)
    return decision
  }

  isSplit(charges: readonly StoreCharge[]): boolean {
    return charges.length > 1
  }

  release(charges: readonly StoreCharge[]): Promise<void> {
    return this.#correct(charges.map((charge) => ({ kind: 'release', charge })))
  }

  revoke(releases: readonly Release[]): Promise<void> {
    const corrections = releases.map(
      ({ charge, isKnown }) => ({ kind: isKnown ? 'release' : 'revoke', charge }) as const,
    )
    return this.#correct(corrections, BACKGROUND_TIMEOUT_MS)
  }

  renew(charges: readonly StoreCharge[]): Promise<void> {
    return this.#correct(charges.map((charge) => ({ kind: 'renew', charge })))
  }

  settle(differences: readonly Adjustment[], chargedAtMs: number): Promise<void> {
    return this.#correct(
      differences.map(({ charge, units }) => {
        return { kind: 'settle', charge, units, chargedAtMs: this.#times.get(charge.key, chargedAtMs) }
      }),
    )
  }

  async delete(keys: readonly string[]): Promise<void> {
    const calls = keys.map((key) => this.#objects.correct(key, [{ kind: 'delete' }]))
    await callWithin(this.#timeoutMs, Promise.all(calls))
  }

  async ping(): Promise<void> {
    await callWithin(this.#timeoutMs, this.#objects.correct(PING_KEY, []))
  }

  /**
   * @param mustStop tells that no more calls are to be made
   * @throws {StoreError} what was reserved must then be cancelled
   */
  async #negotiate(negotiation: Negotiation, mustStop: () => boolean): Promise<Conclusion> {
    await this.#reserve(negotiation, negotiation.prepareFirst(), mustStop)
    const second = negotiation.prepareSecond()
    if (second.length > 0) await this.#reserve(negotiation, second, mustStop)
    if (negotiation.isVoid)
      throw new StoreError('the decision took so long, or met so many others, that it was given up')
    const conclusion = negotiation.conclude()
    const { awaited } = conclusion
    // The caller may ask again at once: the units that it gives back must then be free.
    const stands = await this.#closeAll(awaited)
    const isLost = awaited.some(({ message: { permits } }, at) => permits > 0 && !stands[at])
    if (isLost) throw new StoreError('decision timed out and was cancelled')
    return conclusion
  }

  async #reserve(
    negotiation: Negotiation,
    reservations: readonly To<PreparedCharge>[],
    mustStop: () => boolean,
  ): Promise<void> {
    const answers = await Promise.allSettled(
      reservations.map(async ({ index, key, message }) => {
        negotiation.addVote(index, await this.#objects.reserve(key, message))
      }),
    )
    if (mustStop() || answers.some(({ status }) => status === 'rejected')) throw createCallError()
  }

  /** @returns for each, whether its charge stands. @throws {StoreError} the objects then find out themselves */
  #closeAll(closings: readonly To<CommitOrAbort>[]): Promise<boolean[]> {
    return Promise.all(closings.map(({ key, message }) => this.#close(key, message)))
  }

  async #close(key: string, closing: CommitOrAbort): Promise<boolean> {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs *= 2) {
      try {
        return await this.#objects.close(key, closing)
      } catch {
        if (pauseMs > LAST_PAUSE_MS) throw createCallError()
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }

  #closeLater(closings: readonly To<CommitOrAbort>[], context: CallContext | undefined): void {
    if (closings.length === 0) return
    const work = this.#closeAll(closings)
    if (context) context.waitUntil(work)
    else work.catch(() => {})
  }

  async #correct(corrections: readonly Correction[], timeoutMs = this.#timeoutMs): Promise<void> {
    const byKey = groupBy(corrections, ({ charge }) => charge.key)
    const calls = [...byKey].map(([key, own]) => {
      const sent = own.map((correction) => ({ ...correction, charge: toObjectCharge(correction.charge) }))
      return this.#objects.correct(key, sent)
    })
    await callWithin(timeoutMs, Promise.all(calls))
  }
}

/**
 * Copies what an object needs of a charge, which may be that of a policy with all its settings. A field that is new must be
 * sent or left out here.
 */
function toObjectCharge(charge: StoreCharge): StoreCharge {
  const { key, algorithm, limits, cost, mode, reserved, burst, slot, counts, penalty, ...unsent } = charge
  const { plan: _, needsSettlement: __, ...others } = unsent
  others satisfies Readonly<Record<keyof typeof others, never>>
  return {
    key,
    algorithm,
    cost,
    mode,
    reserved,
    // A calendar is a function: the object gets its ends.
    limits: limits.map(({ limit, windowMs, calendar }) => {
      return { limit, windowMs, ...(calendar && { endsMs: calendar.findEnds(Date.now()) }) }
    }),
    ...(burst !== undefined && { burst }),
    ...(slot !== undefined && { slot }),
    ...(counts && { counts }),
    ...(penalty && { penalty }),
  }
}

/**
 * Tests that a decision has no use once its client has gone away. Leases are for others too, failures must count, and a
 * slot must become known, so that it can be given back.
 */
function isForItsResponse({ action, leaseMs = 0, charges }: DecisionRequest): boolean {
  return (
    ACTIONS[action].charges &&
    ACTIONS[action].mayRefuse &&
    leaseMs === 0 &&
    charges.every(({ slot }) => slot === undefined)
  )
}

/** Nothing follows from it: the platform has ended the request, or is about to. */
function waitForever(): Promise<never> {
  return new Promise(() => {})
}

export function openObjectBackend(namespace: ObjectNamespace, timeoutMs: number): Backend {
  return {
    limits: new DurableObjectStore({ objects: openObjects(namespace), timeoutMs }),
    async documents(key) {
      const { openObjectDocuments } = await import('./tables.ts')
      return openObjectDocuments({ namespace, key, timeoutMs })
    },
    async counters(options) {
      const { openObjectCounters } = await import('./tables.ts')
      return openObjectCounters({ namespace, ...options })
    },
  }
}
