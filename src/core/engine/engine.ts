/** Decides charges in a store as long as it answers, and without it while it does not. */
import { holdsSlots } from '../algorithms/algorithm-table.ts'
import { ACTIONS, type Charge, type Decision, type DecisionRequest, type StoreCharge } from '../model/charge.ts'
import { isEnforced, type OnStoreError } from '../model/policy.ts'
import { type Circuit, type Store, StoreError, type StorePlace } from '../model/store.ts'
import type { Degradation, SlotHold } from '../model/verdict.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Clocks } from '../runtime/clocks.ts'
import { drawNumber } from '../runtime/hash.ts'
import type { Log } from '../runtime/log.ts'
import { MAX_TIMER_MS } from '../runtime/sleep.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import { scaleToLocalShare } from './local-share.ts'
import { CircuitBreaker, withBreaker } from './stages/circuit-breaker.ts'
import { type IsolateMemoryOptions, withIsolateMemory } from './stages/isolate-memory.ts'
import { decideSome } from './stages/stage.ts'

export interface EngineOptions extends Omit<IsolateMemoryOptions, 'repeats' | 'timeoutMs'>, Clocks {
  readonly store: Store
  /** Decides while the store is unavailable. Default: this isolate's memory. */
  readonly fallback?: Store
  readonly log: Log
  /** Deadline of a decision by the store. A decision that is older when it arrives is repeated. */
  readonly storeTimeoutMs: number
  /** Share of each limit that applies here while the store is unavailable, above 0 and at most 1. */
  readonly localShare: number
  /** Default `certain`. */
  readonly repeats?: IsolateMemoryOptions['repeats']
  /** Default true. */
  readonly hasBreaker?: boolean
}

/** A decision, with everything that a follow-up needs. */
export interface EngineDecision<C extends Charge = Charge> extends Decision {
  /** The charges in order; while the store is unavailable, their limits are shares. */
  readonly charges: readonly C[]
  readonly hold?: SlotHold
  /** The store that charged, and that corrections go to. */
  readonly chargedIn: Store
  /** Set if it was decided without the store: `open` charges are then not decided, and `closed` ones grant nothing. */
  readonly degraded?: Degradation
}

/** Ways to answer without the store. */
const FALLBACKS = {
  local: 'decide',
  open: 'admit',
  closed: 'refuse',
} as const satisfies Readonly<Record<OnStoreError, 'decide' | 'admit' | 'refuse'>>

type Permits = Pick<DecisionRequest, 'action' | 'permits'>

const ONE_PERMIT: Permits = { action: 'take', permits: 1 }

/** Decides from the refusal cache or leases, else in the store, or without it while it is unavailable. */
export class Engine {
  readonly #breaker: CircuitBreaker | undefined
  readonly #store: Store
  readonly #options: EngineOptions & { readonly fallback: Store }

  constructor(options: EngineOptions) {
    const { store, now, readLatestMs, readSteadyMs, log, storeTimeoutMs: timeoutMs, leases, watch } = options
    const { repeats = 'certain', hasBreaker = true } = options
    this.#breaker =
      hasBreaker && !store.places
        ? new CircuitBreaker({ now, random: Math.random, probeTimeoutMs: 2 * timeoutMs })
        : undefined
    const guarded = store.places ? store : withBreaker(store, { breaker: this.#breaker, now, log })
    this.#store = withIsolateMemory(guarded, { repeats, leases, now, readSteadyMs, timeoutMs, watch })
    this.#options = { fallback: new MemoryStore(readLatestMs ?? now), ...options }
  }

  get circuit(): Circuit {
    return this.#guard?.circuit ?? 'closed'
  }

  /** True if the next decision would call the store. */
  get mayCall(): boolean {
    return this.#guard?.mayCall ?? true
  }

  get #guard(): Pick<StorePlace, 'circuit' | 'mayCall'> | undefined {
    return this.#options.store.places ?? this.#breaker
  }

  /** An answer half-opens the circuit: no request may come that finds out. @throws {StoreError} */
  async ping(): Promise<void> {
    const { places } = this.#options.store
    if (places) await Promise.all([...places.byName.values()].map((place) => place.ping()))
    else await this.#options.store.ping()
    this.#breaker?.halfOpen()
  }

  /** @param permits one by default; a `peek` is always answered by the store itself */
  async decide<C extends Charge>(
    charges: readonly C[],
    context: CallContext,
    { action, permits }: Permits = ONE_PERMIT,
    isRepeated = false,
  ): Promise<EngineDecision<C>> {
    const request = { action, permits, charges }
    const sentAtMs = this.#options.now()
    try {
      const decision = await this.#store.decide(request, context)
      const ageMs = this.#options.now() - sentAtMs
      if (!ACTIONS[action].charges || decision.granted === 0 || ageMs <= this.#options.storeTimeoutMs) {
        return toEngineDecision(request, decision, this.#store)
      }
      // It was right when it was made. But an isolate that stood still since then would admit a burst of requests that
      // windows had spread out.
      this.#options.log('error', { event: 'late_decision', ageMs, repeated: !isRepeated })
      await this.#releaseSlots(charges, context)
      if (isRepeated) throw new StoreError('its decisions come too late', { mayHaveRun: false })
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      const decision = await this.#decideWithoutStore(request)
      this.#options.log('error', { event: 'store_error', message: error.message, answered: decision.degraded })
      // If the store has decided nevertheless, its slots must not stay held until their deadline.
      const lost = error.mayHaveRun && ACTIONS[action].charges ? charges.filter(holdsSlots) : []
      if (lost.length > 0) context.waitUntil(this.#store.revoke(lost.map((charge) => ({ charge, isKnown: false }))))
      return decision
    }
    return this.decide(charges.map(withNewSlot), context, { action, permits }, true)
  }

  /** @param wasLocal true for the store that has decided while the other one was unavailable */
  findStore(wasLocal: boolean): Store {
    return wasLocal ? this.#options.fallback : this.#store
  }

  async delete(keys: readonly string[]): Promise<void> {
    await this.#options.fallback.delete(keys)
    await this.#store.delete(keys)
  }

  /** Charges units that are used already: in the store that decided, or in the fallback if that store fails now. */
  async record(charges: readonly StoreCharge[], chargedIn: Store, context: CallContext): Promise<void> {
    const request = { action: 'record', permits: 1, charges } as const
    try {
      await chargedIn.decide(request, context)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      this.#options.log('error', { event: 'store_error', message: error.message, answered: 'local' })
      await this.#options.fallback.decide({
        ...request,
        charges: charges.map((charge) => scaleToLocalShare(charge, this.#options.localShare)),
      })
    }
  }

  /** Releases the slots of an admitted request. The next call should find them free, but should not wait long. */
  async #releaseSlots(charges: readonly StoreCharge[], context: CallContext): Promise<void> {
    const released = createHold(charges, this.#store)?.release()
    if (!released) return
    context.waitUntil(released)
    await context.deadlines.waitWithin(this.#options.storeTimeoutMs, released)
  }

  /** Decides as `onStoreError` of each policy says. */
  async #decideWithoutStore<C extends Charge>(request: DecisionRequest<C>): Promise<EngineDecision<C>> {
    const charges = request.charges.map((charge) => scaleToLocalShare(charge, this.#options.localShare))
    const local = { ...request, charges }
    const undecided = { granted: 0, nowMs: this.#options.now(), usage: charges.map(() => []) }
    // One that is not known refuses.
    const findFallback = ({ policy }: Charge) => FALLBACKS[policy.onStoreError] ?? 'refuse'
    const isLocal = (charge: Charge) => findFallback(charge) === 'decide'
    // Policies in shadow mode refuse nothing, even without the store.
    if (charges.some((charge) => isEnforced(charge) && findFallback(charge) === 'refuse')) {
      return { ...toEngineDecision(local, undecided, this.#options.fallback), degraded: 'closed' }
    }
    if (!charges.some(isLocal)) {
      const admitted = { ...undecided, granted: request.permits }
      return { ...toEngineDecision(local, admitted, this.#options.fallback), degraded: 'open' }
    }
    const decision = await decideSome(this.#options.fallback, local, isLocal)
    const degraded = charges.every(isLocal) ? 'local' : 'local, open'
    return { ...toEngineDecision(local, decision, this.#options.fallback), degraded }
  }
}

function toEngineDecision<C extends Charge>(
  { action, charges }: DecisionRequest<C>,
  decision: Decision,
  store: Store,
): EngineDecision<C> {
  const { granted, nowMs, usage } = decision
  const whole = { granted, nowMs, usage, charges, chargedIn: store }
  if (granted === 0 || !ACTIONS[action].charges || !charges.some(({ slot }) => slot !== undefined)) return whole
  const charged = charges.filter((_, index) => isCharged(decision, index))
  const hold = createHold(charged, store)
  return hold ? { ...whole, hold } : whole
}

/** A decision charges neither a charge in shadow mode that would have refused, nor a charge that was skipped. */
export function isCharged({ granted, usage }: Decision, index: number): boolean {
  const limits = usage[index] ?? []
  return granted > 0 && limits.length > 0 && limits.every(({ retryAfterMs }) => retryAfterMs === 0)
}

/** @returns undefined if no charge holds slots */
function createHold(charges: readonly StoreCharge[], store: Store): SlotHold | undefined {
  const held = charges.filter(holdsSlots)
  if (held.length === 0) return undefined
  return {
    renewEveryMs: Math.min(MAX_TIMER_MS, ...held.flatMap(({ limits }) => limits.map(({ windowMs }) => windowMs / 3))),
    release: () => store.release(held),
    renew: () => store.renew(held),
  }
}

/** A released slot is never taken again. */
function withNewSlot<C extends Charge>(charge: C): C {
  return charge.slot === undefined ? charge : { ...charge, slot: drawNumber() }
}
