import type { States } from '../../limit/decide.ts'

/** Keys remembered at most, so that an isolate (128 MB) cannot be filled by minting identities. */
const MAX_KEYS = 100_000

interface Entry {
  readonly state: unknown
  /** As in Redis, a moment of the clock that decides: it is forgotten once that clock has passed it. */
  readonly expiresAtMs: number
}

/** What a store in memory knows of each key, up to a bound. */
export class ExpiringStates implements States {
  readonly #entries = new Map<string, Entry>()
  readonly #maxKeys: number
  #nowMs = 0

  constructor(maxKeys = MAX_KEYS) {
    this.#maxKeys = maxKeys
  }

  /** The states at a moment, until the next call. @param nowMs milliseconds since the Unix epoch */
  at(nowMs: number): States {
    this.#nowMs = nowMs
    return this
  }

  get size(): number {
    return this.#entries.size
  }

  read(key: string): unknown {
    const entry = this.#entries.get(key)
    if (!entry || entry.expiresAtMs >= this.#nowMs) return entry?.state
    // Gone for good, even if the clock steps back.
    this.#entries.delete(key)
    return undefined
  }

  write(key: string, state: unknown, ttlMs?: number): void {
    const expiresAtMs = ttlMs === undefined ? this.#entries.get(key)?.expiresAtMs : this.#nowMs + ttlMs
    // Deleted first, so that the map's order is that of the last write.
    this.#entries.delete(key)
    this.#entries.set(key, { state, expiresAtMs: expiresAtMs ?? 0 })
    this.#evict()
  }

  delete(key: string): void {
    this.#entries.delete(key)
  }

  /** Forgets the keys that were written longest ago: two a write while they have expired, and any beyond the bound. */
  #evict(): void {
    let steps = 2
    for (const [key, { expiresAtMs }] of this.#entries) {
      if (this.#entries.size <= this.#maxKeys && (steps-- === 0 || expiresAtMs >= this.#nowMs)) return
      this.#entries.delete(key)
    }
  }
}
