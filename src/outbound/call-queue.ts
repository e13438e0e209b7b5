/** Calls that wait, in order of priority and time. */
import { PRIORITIES, type Priority } from '../core/model/policy.ts'

export interface QueuedCall {
  readonly priority: Priority
  readonly tenant: string
  /** How often the server has refused it. */
  readonly repetitions: number
}

/** The waiting calls of a tenant: the index is the number of their repetitions. */
type TenantCalls<Call> = (Set<Call> | undefined)[]

/** Waiting calls, ordered by priority, then by tenant in turns, then by repetitions, the most first, then by arrival. */
export class CallQueue<Call extends QueuedCall> {
  /** Calls by priority, then by tenant; the tenant whose turn it is comes first. */
  readonly #waiting = new Map(PRIORITIES.map((priority) => [priority, new Map<string, TenantCalls<Call>>()]))
  #size = 0

  get size(): number {
    return this.#size
  }

  get head(): Call | undefined {
    return this[Symbol.iterator]().next().value
  }

  add(call: Call): void {
    const tenants = this.#findTenants(call)
    const { tenant, repetitions } = call
    const calls = tenants.get(tenant) ?? []
    calls[repetitions] = (calls[repetitions] ?? new Set()).add(call)
    tenants.set(tenant, calls)
    this.#size++
  }

  has(call: Call): boolean {
    return this.#findTenants(call).get(call.tenant)?.[call.repetitions]?.has(call) ?? false
  }

  /** @returns false if it is not queued */
  remove(call: Call): boolean {
    const tenants = this.#findTenants(call)
    const calls = tenants.get(call.tenant)
    if (!calls?.[call.repetitions]?.delete(call)) return false
    if (calls.every((each) => each?.size === 0)) tenants.delete(call.tenant)
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
      for (const calls of tenants.values()) for (const each of calls.toReversed()) yield* each ?? []
    }
  }

  /** The latest of the least important, of the tenant with the most. */
  findLeastImportant(): Call | undefined {
    const tenants = [...this.#waiting.values()].findLast(({ size }) => size > 0) ?? new Map<string, TenantCalls<Call>>()
    const count = (calls: TenantCalls<Call>) => calls.reduce((sum, each) => sum + (each?.size ?? 0), 0)
    const longest = [...tenants.values()].reduce((most, calls) => (count(calls) >= count(most) ? calls : most), [])
    return [...(longest.find((each) => each?.size) ?? [])].at(-1)
  }

  #findTenants({ priority }: QueuedCall): Map<string, TenantCalls<Call>> {
    return this.#waiting.get(priority) as Map<string, TenantCalls<Call>>
  }
}
