import { PRIORITIES, type Priority } from '../model/policy.ts'

interface QueuedCall {
  readonly priority: Priority
  readonly caller: string
}

/** Waiting calls, ordered by priority, then by callers in turns, then by arrival. */
export class CallQueue<Call extends QueuedCall> {
  readonly #maxSize: number
  /** Calls by priority, then by caller; the caller whose turn it is comes first. */
  readonly #waiting = new Map(PRIORITIES.map((priority) => [priority, new Map<string, Set<Call>>()]))
  #size = 0

  /** @param maxSize calls that may wait at once, an integer from 1 */
  constructor(maxSize: number) {
    this.#maxSize = maxSize
  }

  get size(): number {
    return this.#size
  }

  get head(): Call | undefined {
    for (const call of this) return call
    return undefined
  }

  /**
   * @returns the call for which there is no room, which may be this one: the latest of the least important, from the
   * caller that has the most of them; undefined if there is room for all.
   */
  add(call: Call): Call | undefined {
    const callers = this.#findCallers(call)
    const calls = callers.get(call.caller)
    if (calls) calls.add(call)
    else callers.set(call.caller, new Set([call]))
    this.#size++
    if (this.#size <= this.#maxSize) return undefined
    const surplus = this.#findLeastImportant()
    this.remove(surplus)
    return surplus
  }

  has(call: Call): boolean {
    return this.#findCallers(call).get(call.caller)?.has(call) ?? false
  }

  /** @returns false if it is not queued */
  remove(call: Call): boolean {
    const callers = this.#findCallers(call)
    const calls = callers.get(call.caller)
    if (!calls?.delete(call)) return false
    if (calls.size === 0) callers.delete(call.caller)
    this.#size--
    return true
  }

  /** Removes a call in its turn; the next turn is another caller's. */
  take(call: Call): void {
    if (!this.remove(call)) return
    const callers = this.#findCallers(call)
    const others = callers.get(call.caller)
    if (!others) return
    callers.delete(call.caller)
    callers.set(call.caller, others)
  }

  *[Symbol.iterator](): Iterator<Call> {
    for (const callers of this.#waiting.values()) {
      for (const calls of callers.values()) yield* calls
    }
  }

  #findCallers({ priority }: QueuedCall): Map<string, Set<Call>> {
    return this.#waiting.get(priority) as Map<string, Set<Call>>
  }

  #findLeastImportant(): Call {
    const callers = [...this.#waiting.values()].findLast(({ size }) => size > 0) ?? new Map<string, Set<Call>>()
    const longest = [...callers.values()].reduce((most, calls) => (calls.size >= most.size ? calls : most))
    return [...longest].at(-1) as Call
  }
}
