import { decide, type States } from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest } from '../../model/charge.ts'
import type { Store } from '../../model/store.ts'
import { ExpiringStates, MAX_KEYS } from '../../store/memory/expiring-states.ts'
import { billedCommands, type Touched } from './billed-commands.ts'

/** Decides as the script in Redis does, by a clock that is told the time. */
export class VirtualStore implements Pick<Store, 'decide'> {
  readonly #states = new RecordedStates()
  #nowMs = 0
  #calls = 0
  #commands = 0

  get nowMs(): number {
    return this.#nowMs
  }

  /** Lets time go by, never back. @param timeMs milliseconds since the Unix epoch; may have a fraction */
  advanceTo(timeMs: number): void {
    this.#nowMs = Math.max(this.#nowMs, timeMs)
  }

  /** Decisions that were asked for. */
  get calls(): number {
    return this.#calls
  }

  /** Commands that Upstash would have billed for them. */
  get commands(): number {
    return this.#commands
  }

  /** Whether there were more callers than are remembered, so that some began anew. */
  get isFull(): boolean {
    return this.#states.size >= MAX_KEYS
  }

  async decide(request: DecisionRequest): Promise<Decision> {
    return this.decideNow(request)
  }

  decideNow(request: DecisionRequest): Decision {
    const nowUs = Math.round(this.#nowMs * 1_000)
    const decision = decide(request, nowUs, this.#states.at(Math.floor(nowUs / 1_000)))
    this.#calls++
    this.#commands += billedCommands(request, decision, this.#states)
    return decision
  }
}

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
