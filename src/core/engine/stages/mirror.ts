/** Fills a second store with the same charges, before it replaces the first. */

import { countWanted, isChargedLater, wasSkipped, withoutCondition } from '../../algorithms/decide.ts'
import { ACTIONS, type Decision, type DecisionRequest, type StoreCharge } from '../../model/charge.ts'
import type { PenaltySettings } from '../../model/limits.ts'
import { isEnforced } from '../../model/policy.ts'
import { type Store, StoreError } from '../../model/store.ts'
import { MAX_AFTER } from '../../options/policy-options.ts'
import { type CallContext, Deadlines } from '../../runtime/call-context.ts'
import { groupBy } from '../../runtime/lists.ts'
import type { Log } from '../../runtime/log.ts'
import { isCharged } from '../engine.ts'
import { CircuitBreaker, withBreaker } from './circuit-breaker.ts'
import { decorate } from './stage.ts'

/**
 * Decisions that both made, with those that only one refused; and calls that failed, or could not be sent in time: the
 * mirror may lack their charges.
 */
const COUNTS = { decisions: 0, refusedByMirrorOnly: 0, refusedByPrimaryOnly: 0, failures: 0 }
export type MirrorCount = keyof typeof COUNTS

export interface MirrorWatch {
  onMirrored(what: MirrorCount): void
}

export interface MirrorOptions {
  /** The store that receives the charges. */
  readonly mirror: Store
  readonly now: () => number
  /** Deadline of a decision. */
  readonly timeoutMs: number
  readonly watch?: MirrorWatch | undefined
  readonly log: Log
}

const LOG_INTERVAL_MS = 60_000

/** A charge that could not be sent because the circuit is open is tried again after about this. */
const PAUSE_MS = 250
/** Five seconds of pauses: a Worker is stopped 30 s after its response. */
const MAX_ATTEMPTS = 20
/** Charges that may wait at once, a few MB. */
const MAX_WAITING = 1_000

/** Refusals are mirrored, but only the store begins penalties: those of the mirror would end at another time. */
const NO_PENALTY: PenaltySettings = { durationMs: 1, after: MAX_AFTER }

interface MirroredCharge {
  /** The time of the charge, by the mirror's clock; undefined if unknown. */
  readonly atMs: Promise<number | undefined>
  readonly context: CallContext | undefined
}

/**
 * Repeats charges and penalties in a second store, so that its windows are full when it replaces the first. The mirror
 * refuses nothing, no response waits for it, and its failures change nothing. Decisions that differ are counted.
 *
 * `revoke` goes to the store alone: a decision without an answer was not mirrored, and slots whose release failed were
 * released in the mirror before.
 */
export function withMirror(store: Store, options: MirrorOptions): Store {
  const { mirror: target, now, timeoutMs, log } = options
  const breaker = new CircuitBreaker({ now, random: Math.random, probeTimeoutMs: 2 * timeoutMs })
  const second = withBreaker(target, { breaker, now, log: (level) => log(level, { event: 'mirror_recovered' }) })
  const mirror = new Mirror(second, options)
  return decorate(store, {
    async decide(request, context) {
      const decision = await store.decide(request, context)
      if (ACTIONS[request.action].charges) mirror.follow(request, decision, context)
      return decision
    },
    release(charges) {
      mirror.followUp(charges, (own, atMs) =>
        // A charge without an answer may still be on its way.
        atMs === undefined ? second.revoke(own.map((charge) => ({ charge, isKnown: false }))) : second.release(own),
      )
      return store.release(charges)
    },
    renew(charges) {
      mirror.followUp(charges, (own) => second.renew(own))
      return store.renew(charges)
    },
    settle(differences, chargedAtMs) {
      const units = new Map(differences.map(({ charge, units }) => [charge, units]))
      mirror.followUp([...units.keys()], async (own, atMs) => {
        if (atMs === undefined) return
        const adjustments = own.map((charge) => ({ charge, units: units.get(charge) ?? 0 }))
        await second.settle(adjustments, atMs)
      })
      return store.settle(differences, chargedAtMs)
    },
    async delete(keys) {
      const done = mirror.guard(second.delete(keys))
      await store.delete(keys)
      await done
    },
  })
}

class Mirror {
  readonly #second: Store
  readonly #options: MirrorOptions
  /** Keys are the charge objects of a request, which no other request has. */
  readonly #mirroredCharges = new WeakMap<StoreCharge, MirroredCharge>()
  /** Counts since the last log line. */
  #counts = { ...COUNTS }
  #loggedAtMs: number
  #waiting = 0

  constructor(second: Store, options: MirrorOptions) {
    this.#second = second
    this.#options = options
    this.#loggedAtMs = options.now()
  }

  follow(request: DecisionRequest, decision: Decision, context: CallContext | undefined): void {
    if (decision.granted > 0) this.#followCharge(request, decision, context)
    else this.#continueWith(this.#followRefusal(request, decision, context), context)
  }

  /** Repeats in the mirror what is done with charges in the store, as soon as their time is known. */
  followUp(
    charges: readonly StoreCharge[],
    work: (charges: StoreCharge[], atMs: number | undefined) => Promise<void>,
  ): void {
    for (const [charge, own] of groupBy(charges, (charge) => this.#mirroredCharges.get(charge))) {
      const done = charge?.atMs.then((atMs) => work(own, atMs))
      if (done) this.#continueWith(done, charge?.context)
    }
  }

  /** Counts a failure of the mirror, which nobody else notices. */
  async guard(work: Promise<unknown>): Promise<void> {
    try {
      await work
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      this.#count('failures')
      this.#options.log('warn', { event: 'mirror_error', message: error.message })
    }
  }

  /** Mirrors a charge, even if less remains there, and compares the limits before it. */
  #followCharge(request: DecisionRequest, decision: Decision, context: CallContext | undefined): void {
    const { action, leaseMs } = request
    const charges = request.charges.filter((_, index) => wasCharged(request, decision, index))
    if (charges.length === 0) return
    const recorded: DecisionRequest = {
      action: 'record',
      permits: decision.granted,
      // The store has found which identities are new: the mirror may know others.
      charges: charges.map(withoutCondition),
      ...(leaseMs !== undefined && { leaseMs }),
    }
    const answered = this.#repeatCharge(recorded, context)
    const atMs = answered.then(
      ({ nowMs }) => nowMs,
      () => undefined,
    )
    for (const charge of charges) {
      if (charge.slot !== undefined || charge.needsSettlement) this.#mirroredCharges.set(charge, { atMs, context })
    }
    const comparison = answered.then(({ usage }) => {
      // A charge of used units is no decision.
      if (!ACTIONS[action].mayRefuse) return
      const isRefused = charges.some((charge, index) => {
        return isEnforced(charge) && usage[index]?.some(({ retryAfterMs }) => retryAfterMs > 0)
      })
      this.#count('decisions', isRefused && 'refusedByMirrorOnly')
    })
    this.#continueWith(comparison, context)
  }

  /** Compares a refusal, then repeats its penalty in the mirror. */
  async #followRefusal(request: DecisionRequest, decision: Decision, context: CallContext | undefined): Promise<void> {
    const { now } = this.#options
    const refusedAtMs = now()
    try {
      const peek = { action: 'peek', permits: countWanted(request), charges: request.charges } as const
      const { granted } = await this.#second.decide(peek, withOwnDeadlines(context))
      this.#count('decisions', granted > 0 && 'refusedByPrimaryOnly')
    } finally {
      const charges = createPenaltyCharges(request, decision, now() - refusedAtMs)
      if (charges.length > 0) await this.#repeatCharge({ action: 'take', permits: 1, charges }, context)
    }
  }

  /**
   * Sends a charge, a little later if the circuit is open; a call that may have run is not repeated. Each request waits
   * for its own: on Workers, none may await a promise of another.
   */
  async #repeatCharge(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    let attempt = 0
    try {
      for (;;) {
        try {
          return await this.#second.decide(request, withOwnDeadlines(context))
        } catch (error) {
          const mayRetry = attempt === 0 ? this.#waiting < MAX_WAITING : attempt < MAX_ATTEMPTS
          if (!(error instanceof StoreError) || error.mayHaveRun || !mayRetry) throw error
        }
        if (attempt++ === 0) this.#waiting++
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * (0.75 + Math.random() / 2)))
      }
    } finally {
      if (attempt > 0) this.#waiting--
    }
  }

  #continueWith(work: Promise<unknown>, context: CallContext | undefined): void {
    const done = this.guard(work)
    if (context) context.waitUntil(done)
  }

  #count(...names: readonly (MirrorCount | false)[]): void {
    const { now, log, watch } = this.#options
    for (const name of names) {
      if (!name) continue
      this.#counts[name]++
      watch?.onMirrored(name)
    }
    const nowMs = now()
    if (nowMs - this.#loggedAtMs < LOG_INTERVAL_MS) return
    log('info', { event: 'mirror', ...this.#counts })
    this.#counts = { ...COUNTS }
    this.#loggedAtMs = nowMs
  }
}

/** Failures are charged when they have happened, and policies that count new identities only for a new one. */
function wasCharged({ action, charges }: DecisionRequest, decision: Decision, index: number): boolean {
  const charge = charges[index] as StoreCharge
  if (!ACTIONS[action].mayRefuse) return true
  return !isChargedLater(charge) && isCharged(decision, index) && !wasSkipped(charge, decision.usage[index] ?? [])
}

/**
 * Creates charges that make the mirror remember a refusal: for each policy with a penalty, a cost that never fits.
 * @param elapsedMs time since the refusal
 */
function createPenaltyCharges(request: DecisionRequest, decision: Decision, elapsedMs: number): StoreCharge[] {
  // A provisional refusal leads to no penalty. If one is active, the next refusal shows it.
  if (decision.isProvisional) return []
  return request.charges.flatMap((charge, index) => {
    const usage = decision.usage[index] ?? []
    const wanted = charge.cost * countWanted(request)
    if (!charge.penalty || !isEnforced(charge) || !usage.some(({ retryAfterMs }) => retryAfterMs > 0)) return []
    const penaltyMs = usage[0]?.penaltyMs
    const isRefusal = usage.some(({ remaining }) => remaining < wanted)
    if (penaltyMs === undefined && !isRefusal) return []
    const penalty = penaltyMs === undefined ? NO_PENALTY : { durationMs: Math.max(1, penaltyMs - elapsedMs), after: 1 }
    return [{ ...charge, penalty, cost: Number.MAX_SAFE_INTEGER, reserved: 0, counts: 'requests' }]
  })
}

/** The deadlines of the request end with its response, so calls of the mirror have their own. */
function withOwnDeadlines(context: CallContext | undefined): CallContext | undefined {
  return context && { waitUntil: (work) => context.waitUntil(work), deadlines: Deadlines.createForOne() }
}
