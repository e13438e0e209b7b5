import type { States } from '../../algorithms/decide.ts'

/** New identities cannot fill an isolate (128 MB) beyond this. */
export const MAX_KEYS = 100_000

/** Entries form a ring in order of the last write: one that is written again is relinked, which a `Map` cannot do cheaply. */
interface Entry {
  readonly key: string
  state: unknown
  /** The entry is forgotten once the clock that decides has passed this. */
  expiresAtMs: number
  older: Entry
  newer: Entry
}

export class ExpiringStates implements States {
  readonly #entries = new Map<string, Entry>()
  /** It closes the ring: after it comes the oldest entry, before it the newest. */
  readonly #ends = createRing()
  readonly #maxKeys: number
  #nowMs = 0

  constructor(maxKeys = MAX_KEYS) {
    this.#maxKeys = maxKeys
  }

  /** @returns the states at this time, until the next call. @param nowMs milliseconds since the Unix epoch */
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
    // It is gone for good, even if the clock steps back.
    this.#remove(entry)
    return undefined
  }

  write(key: string, state: unknown, ttlMs?: number): void {
    let entry = this.#entries.get(key)
    if (entry) unlink(entry)
    else {
      entry = createRing(key)
      this.#entries.set(key, entry)
    }
    entry.state = state
    if (ttlMs !== undefined) entry.expiresAtMs = this.#nowMs + ttlMs
    linkBefore(this.#ends, entry)
    this.#evict()
  }

  delete(key: string): void {
    const entry = this.#entries.get(key)
    if (entry) this.#remove(entry)
  }

  /** Forgets the keys that were written longest ago: two a write while they have expired, and any beyond the bound. */
  #evict(): void {
    for (let steps = 2; this.#entries.size > 0; steps--) {
      const oldest = this.#ends.newer
      const isExpired = oldest.expiresAtMs < this.#nowMs
      if (this.#entries.size <= this.#maxKeys && (steps === 0 || !isExpired)) return
      this.#remove(oldest)
    }
  }

  #remove(entry: Entry): void {
    this.#entries.delete(entry.key)
    unlink(entry)
  }
}

function createRing(key = ''): Entry {
  const entry = { key, state: undefined, expiresAtMs: 0 } as Entry
  entry.older = entry
  entry.newer = entry
  return entry
}

function unlink({ older, newer }: Entry): void {
  older.newer = newer
  newer.older = older
}

function linkBefore(newer: Entry, entry: Entry): void {
  const { older } = newer
  entry.older = older
  entry.newer = newer
  older.newer = entry
  newer.older = entry
}
