/** The limiter of a resource, and what it has refused. */
import type { LimiterDecision } from '../library/decision.ts'
import type { Clock } from './clock.ts'
import type { CallWait } from './gate.ts'
import type { OutboundDecision } from './options.ts'
import type { OwnLimiter } from './own-limits.ts'

/** Limiters take no empty identity, which stands for all calls here. */
const UNNAMED = '(all)'

export class ChargedLimiter {
  readonly #limiter: OwnLimiter
  readonly #identity: string
  readonly #clock: Clock
  /** It has refused a call of this cost. */
  #refused = { untilMs: 0, cost: 0 }

  constructor(limiter: OwnLimiter, resource: string, clock: Clock) {
    this.#limiter = limiter
    this.#identity = resource || UNNAMED
    this.#clock = clock
  }

  /** Whoever resumes calls has reset the limiter as well. */
  resume(): void {
    this.#refused = { untilMs: 0, cost: 0 }
  }

  /** A call of less cost than one that was refused need not wait as long. */
  findWait(cost: number, nowMs: number): CallWait | undefined {
    const { untilMs, cost: refusedCost } = this.#refused
    return cost < refusedCost || untilMs <= nowMs ? undefined : { untilMs, reason: 'limiter' }
  }

  /** @returns undefined if it does not grant the call, or cannot say so without a wait */
  takeNow(cost: number): OutboundDecision | undefined {
    const decision = this.#limiter.takeNow?.(this.#identity, cost)
    return !decision || decision.granted ? decision : this.#noteRefusal(decision, cost)
  }

  /** @returns undefined if it does not grant the call @throws what the limiter does */
  async take(cost: number): Promise<OutboundDecision | undefined> {
    const before = this.#refused
    const decision = await this.#limiter.take(this.#identity, { cost })
    if (decision.granted) return decision
    return before === this.#refused ? this.#noteRefusal(decision, cost) : undefined
  }

  /** Corrects what was charged for a call, if the limiter can. @throws what the limiter does */
  async settle(decision: OutboundDecision, units: number): Promise<void> {
    if ('charged' in decision) await this.#limiter.settle?.(this.#identity, decision as LimiterDecision, units)
  }

  #noteRefusal({ retryAfterMs }: OutboundDecision, cost: number): undefined {
    this.#refused = { untilMs: this.#clock.now() + Math.max(1, retryAfterMs), cost }
  }
}
