import { PRIORITIES, type Priority } from '../model/policy.ts'

interface QueuedCall {
  readonly priority: Priority
  readonly tenant: string
  /** How often the server has refused it. */
  readonly repetitions?: number
}

/** Waiting calls, ordered by priority, then by tenant in turns, then by repetitions, the most first, then by arrival. */
export class CallQueue<Call extends QueuedCall> {
  readonly #maxSize: number
  /** Calls by priority, then by tenant, in order; the tenant whose turn it is comes first. */
  readonly #waiting = new Map(PRIORITIES.map((priority) => [priority, new Map<string, Set<Call>>()]))
  #size = 0

  constructor(maxSize: number) {
    this.#maxSize = maxSize
  }

  get size(): number {
    return this.#size
  }

  get head(): Call | undefined {
    return this[Symbol.iterator]().next().value
  }

  /** @returns the call without room, maybe this one: the latest of the least important, of the tenant with the most */
  add(call: Call): Call | undefined {
    const tenants = this.#findTenants(call)
    const calls = (tenants.get(call.tenant) ?? new Set()).add(call)
    tenants.set(call.tenant, call.repetitions ? sortByRepetitions(calls) : calls)
    this.#size++
    if (this.#size <= this.#maxSize) return undefined
    const surplus = this.#findLeastImportant()
    this.remove(surplus)
    return surplus
  }

  has(call: Call): boolean {
    return this.#findTenants(call).get(call.tenant)?.has(call) ?? false
  }

  /** @returns false if it is not queued */
  remove(call: Call): boolean {
    const tenants = this.#findTenants(call)
    const calls = tenants.get(call.tenant)
    if (!calls?.delete(call)) return false
    if (calls.size === 0) tenants.delete(call.tenant)
    this.#size--
    return true
  }

  /** Removes a call in its turn; the next turn is another tenant's. */
  take(call: Call): void {
    if (!this.remove(call)) return
    const tenants = this.#findTenants(call)
    const others = tenants.get(call.tenant)
    if (!others) return
    tenants.delete(call.tenant)
    tenants.set(call.tenant, others)
  }

  *[Symbol.iterator](): Iterator<Call, undefined> {
    for (const tenants of this.#waiting.values()) {
      for (const calls of tenants.values()) yield* calls
    }
  }

  #findTenants({ priority }: QueuedCall): Map<string, Set<Call>> {
    return this.#waiting.get(priority) as Map<string, Set<Call>>
  }

  #findLeastImportant(): Call {
    const tenants = [...this.#waiting.values()].findLast(({ size }) => size > 0) ?? new Map<string, Set<Call>>()
    const longest = [...tenants.values()].reduce((most, calls) => (calls.size >= most.size ? calls : most))
    return [...longest].at(-1) as Call
  }
}

function sortByRepetitions<Call extends QueuedCall>(calls: Iterable<Call>): Set<Call> {
  return new Set([...calls].sort((a, b) => (b.repetitions ?? 0) - (a.repetitions ?? 0)))
}
