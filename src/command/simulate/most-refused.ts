/** Callers remembered at most. */
const MAX_CALLERS = 100_000

export interface RefusedCaller {
  readonly policy: string
  /** As in the key in Redis. */
  readonly digest: string
  /** What the log has of it. */
  readonly shown: string
  refused: number
}

/** Counts refusals of each caller. If there are too many callers, those refused least are forgotten. */
export class MostRefused {
  readonly #callers = new Map<string, RefusedCaller>()
  readonly #maxCallers: number
  #forgottenUpTo = 0

  constructor(maxCallers = MAX_CALLERS) {
    this.#maxCallers = maxCallers
  }

  /** Refusals that a caller may have had beside those counted. */
  get uncertainty(): number {
    return this.#forgottenUpTo
  }

  /** @param shown asked for at the first refusal only */
  add(policy: string, key: string, shown: () => string): void {
    const known = this.#callers.get(key)
    if (known) known.refused++
    else {
      const digest = key.slice(key.indexOf('{') + 1, -1)
      this.#callers.set(key, { policy, digest, shown: shown(), refused: 1 })
      if (this.#callers.size > this.#maxCallers) this.#forget()
    }
  }

  top(count: number): readonly RefusedCaller[] {
    return [...this.#callers.values()].toSorted((a, b) => b.refused - a.refused).slice(0, count)
  }

  #forget(): void {
    while (this.#callers.size > this.#maxCallers / 2) {
      this.#forgottenUpTo++
      for (const [key, { refused }] of this.#callers) if (refused <= this.#forgottenUpTo) this.#callers.delete(key)
    }
  }
}
