/** Stops calls to a store that keeps failing. */
import { type Circuit, type Store, StoreError } from '../../model/store.ts'
import { createLoader } from '../../runtime/create-loader.ts'
import type { Log } from '../../runtime/log.ts'
import type { PendingReleases } from './pending-releases.ts'
import { decorate } from './stage.ts'

export interface CircuitBreakerOptions {
  readonly now: () => number
  /** A number from 0 to 1, so that isolates do not probe all at once. */
  readonly random: () => number
  /** An unanswered probe stops blocking others after this. */
  readonly probeTimeoutMs: number
}

/** This many failures in a row open the circuit. */
const FAILURES_IN_A_ROW = 5
/** Failures of half of the calls in a period open it too, if there are enough calls. */
const PERIOD_MS = 10_000
const FAILURE_SHARE = 0.5
const ENOUGH_CALLS = 20
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 1_000
/** A pause is shortened by up to this share of it. */
const JITTER = 0.25

/**
 * Stops calls to a store that keeps failing (Circuit Breaker, M. Nygard, Release It!), so that not every request waits
 * for a deadline, and a store that recovers is not overloaded at once. It holds plain data only, because the requests of
 * an isolate share it, and on older Workers none may await a promise of another.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  /** Another one with each change of the circuit: results of calls that began before it no longer count. */
  #phase = createPhase('closed')
  #pauseMs = FIRST_PAUSE_MS
  #probeAtMs = 0

  constructor(options: CircuitBreakerOptions) {
    this.#options = options
  }

  get circuit(): Circuit {
    return this.#phase.circuit
  }

  /** True if the next call would be made. */
  get mayCall(): boolean {
    const leftMs = this.#probeAtMs - this.#options.now()
    // If more time remains than there can be, the clock has stepped back.
    return this.circuit === 'closed' || leftMs <= 0 || leftMs > Math.max(LONGEST_PAUSE_MS, this.#options.probeTimeoutMs)
  }

  /** Lets the next call be the probe, because the store has answered something else. */
  halfOpen(): void {
    if (this.circuit !== 'open') return
    this.#phase = createPhase('half-open')
    this.#probeAtMs = this.#options.now()
  }

  /** @returns undefined if no call may be made; else a function to call once, when the call has ended */
  begin(): ((isSuccess: boolean) => void) | undefined {
    if (!this.mayCall) return undefined
    if (this.circuit !== 'closed') {
      this.#phase = createPhase('half-open')
      this.#probeAtMs = this.#options.now() + this.#options.probeTimeoutMs
    }
    const phase = this.#phase
    return (isSuccess) => {
      if (phase !== this.#phase) return
      if (phase.circuit === 'closed') this.#count(isSuccess)
      else if (isSuccess) this.#phase = createPhase('closed')
      else this.#open(Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS))
    }
  }

  #count(isSuccess: boolean): void {
    const phase = this.#phase
    const nowMs = this.#options.now()
    if (nowMs >= phase.periodEndsAtMs) {
      Object.assign(phase, { periodEndsAtMs: nowMs + PERIOD_MS, calls: 0, failures: 0 })
    }
    phase.calls++
    if (isSuccess) {
      phase.failuresInARow = 0
      return
    }
    phase.failures++
    phase.failuresInARow++
    const isRate = phase.calls >= ENOUGH_CALLS && phase.failures >= phase.calls * FAILURE_SHARE
    if (phase.failuresInARow >= FAILURES_IN_A_ROW || isRate) this.#open(FIRST_PAUSE_MS)
  }

  #open(pauseMs: number): void {
    this.#pauseMs = pauseMs
    this.#probeAtMs = this.#options.now() + pauseMs * (1 - JITTER * this.#options.random())
    this.#phase = createPhase('open')
  }
}

function createPhase(circuit: Circuit) {
  return { circuit, failuresInARow: 0, periodEndsAtMs: 0, calls: 0, failures: 0 }
}

export interface BreakerOptions {
  /** Undefined: the store is called however often it fails. */
  readonly breaker: CircuitBreaker | undefined
  readonly now: () => number
  readonly log: Log
}

/** A store that fails now and then must not fill the log. */
const LOG_EVERY_MS = 1_000

// Only slots whose release has failed need it.
const loadPending = createLoader(() => import('./pending-releases.ts'))

/** Makes no decisions in a store while it keeps failing, and releases slots as soon as the store is available. */
export function withBreaker(store: Store, { breaker, now, log }: BreakerOptions): Store {
  let pending: PendingReleases | undefined
  let hasFailed = false
  let recoveredAtMs = Number.NEGATIVE_INFINITY
  const revoke: Store['revoke'] = async (releases) => {
    const { PendingReleases } = await loadPending()
    pending ??= new PendingReleases(store, now)
    pending.add(releases)
    return pending.keep()
  }

  return decorate(store, {
    async decide(request, context) {
      // The request that sent them before may have no time left.
      if (pending?.size) context?.waitUntil(pending.keep())
      const end = breaker?.begin()
      if (breaker && !end) throw new StoreError('circuit breaker open after repeated failures', { mayHaveRun: false })
      let isSuccess = false
      try {
        const deciding = store.decide(request, context)
        // Even if the client disconnects first, its slots must become known, to be released.
        if (request.charges.some(({ slot }) => slot !== undefined)) context?.waitUntil(deciding.catch(() => {}))
        const decision = await deciding
        isSuccess = true
        return decision
      } finally {
        end?.(isSuccess)
        if (!isSuccess) hasFailed = true
        // After a short outage, too, in which the circuit did not open.
        else if (hasFailed && breaker?.circuit !== 'open' && Math.abs(now() - recoveredAtMs) >= LOG_EVERY_MS) {
          hasFailed = false
          recoveredAtMs = now()
          log('info', { event: 'store_recovered' })
        }
      }
    },
    // Slots are released even while it is open: no response waits for it.
    async release(charges) {
      try {
        await store.release(charges)
      } catch (error) {
        if (!(error instanceof StoreError)) throw error
        await revoke(charges.map((charge) => ({ charge, isKnown: true })))
      }
    },
    revoke,
  })
}
