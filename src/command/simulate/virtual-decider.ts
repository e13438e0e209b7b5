import type { Charge, Decided } from '../../decide/decider.ts'
import { decide, type States } from '../../limit/decide.ts'
import type { Decision, DecisionRequest, Rule } from '../../limit/rule.ts'
import { ExpiringStates, MAX_KEYS } from '../../store/memory/expiring-states.ts'
import { billedCommands, type Touched } from './billed-commands.ts'

/** Decides as the script in Redis does, by a clock that is told the time. */
export class VirtualDecider {
  readonly #states = new RecordedStates()
  #nowMs = 0
  #commands = 0
  #last: readonly Rule[] = []

  get nowMs(): number {
    return this.#nowMs
  }

  /** Lets time go by, never back. @param timeMs milliseconds since the Unix epoch; may have a fraction */
  advanceTo(timeMs: number): void {
    this.#nowMs = Math.max(this.#nowMs, timeMs)
  }

  /** Commands that Upstash would have billed. */
  get commands(): number {
    return this.#commands
  }

  /** The rules of the last decision, in order. */
  get lastRules(): readonly Rule[] {
    return this.#last
  }

  /** Whether there were more callers than are remembered, so that some began anew. */
  get isFull(): boolean {
    return this.#states.size >= MAX_KEYS
  }

  async decide(charges: readonly Charge[]): Promise<Decided> {
    const rules = charges.map(({ rule }) => rule)
    this.#last = rules
    return { ...this.#decide({ mode: 'all', permits: 1, rules }), rules, chargedIn: UNSETTLED }
  }

  async charge(rules: readonly Rule[]): Promise<void> {
    this.#decide({ mode: 'charge', permits: 1, rules })
  }

  #decide(request: DecisionRequest): Decision {
    const nowUs = Math.round(this.#nowMs * 1_000)
    const decision = decide(request, nowUs, this.#states.at(Math.floor(nowUs / 1_000)))
    this.#commands += billedCommands(request, decision, this.#states)
    return decision
  }
}

/** Actual costs stand in responses, which a log does not hold. */
const UNSETTLED: Decided['chargedIn'] = { async settle() {} }

/** The states, and what the last decision did to them. */
class RecordedStates implements States, Touched {
  readonly readKeys: string[] = []
  readonly written = new Map<string, boolean>()
  readonly #states = new ExpiringStates()

  get size(): number {
    return this.#states.size
  }

  at(nowMs: number): this {
    this.#states.at(nowMs)
    this.readKeys.length = 0
    this.written.clear()
    return this
  }

  read(key: string): unknown {
    this.readKeys.push(key)
    return this.#states.read(key)
  }

  write(key: string, state: unknown, ttlMs?: number): void {
    this.written.set(key, ttlMs !== undefined)
    this.#states.write(key, state, ttlMs)
  }
}
