/** States by key that expire, in bounded memory. */
import type { States } from '../../algorithms/decide.ts'

/** New identities cannot fill an isolate (128 MB) beyond this. */
export const MAX_KEYS = 100_000

/** Entries by their keys, or by the ends of keys that begin alike. */
type StateSpace = Map<string, StateEntry>

/** Entries form a ring in order of the last write: one that is written again is relinked, which a `Map` cannot do cheaply. */
interface StateEntry {
  readonly space: StateSpace
  readonly name: string
  state: unknown
  /** The entry is forgotten once the clock that decides has passed this. */
  expiresAtMs: number
  older: StateEntry
  newer: StateEntry
}

export class ExpiringStates implements States {
  /** Entries by key prefix, up to the first "=". There are few prefixes. */
  readonly #spaces = new Map<string, StateSpace>()
  /** It closes the ring: after it comes the oldest entry, before it the newest. */
  readonly #ends = createRing(new Map(), '', undefined)
  readonly #maxKeys: number
  /** Decisions so far. */
  readonly use = { decisions: 0 }
  #size = 0
  #nowMs = 0

  constructor(maxKeys = MAX_KEYS) {
    this.#maxKeys = maxKeys
  }

  /** @returns the states at this time, until the next call. @param nowMs milliseconds since the Unix epoch */
  advanceTo(nowMs: number): States {
    this.#nowMs = nowMs
    this.use.decisions++
    return this
  }

  get size(): number {
    return this.#size
  }

  read(key: string): unknown {
    const { space, name } = this.#locate(key)
    return this.find(space, name)?.state
  }

  write(key: string, state: unknown, ttlMs?: number): void {
    const { space, name } = this.#locate(key)
    const entry = space.get(name)
    // Redis forgets such a key at once, too.
    if (ttlMs !== undefined && ttlMs <= 0) {
      if (entry) this.#remove(entry)
    } else if (entry) {
      entry.state = state
      this.touch(entry, ttlMs)
    } else this.add(space, name, state, ttlMs)
  }

  delete(key: string): void {
    const { space, name } = this.#locate(key)
    const entry = space.get(name)
    if (entry) this.#remove(entry)
  }

  find(space: StateSpace, name: string): StateEntry | undefined {
    const entry = space.get(name)
    if (entry === undefined || entry.expiresAtMs >= this.#nowMs) return entry
    // It is gone for good, even if the clock steps back.
    this.#remove(entry)
    return undefined
  }

  /** Adds what `find` has not found. */
  add(space: StateSpace, name: string, state: unknown, ttlMs: number | undefined): void {
    const entry = createRing(space, name, state)
    space.set(name, entry)
    this.#size++
    this.touch(entry, ttlMs)
  }

  /** Makes an entry the newest. */
  touch(entry: StateEntry, ttlMs: number | undefined): void {
    if (ttlMs !== undefined) entry.expiresAtMs = this.#nowMs + ttlMs
    if (entry.newer !== this.#ends) {
      unlink(entry)
      linkBefore(this.#ends, entry)
    }
    this.#evict()
  }

  /** @param prefix of keys, up to their first "="; the empty one of all that have none */
  open(prefix: string): StateSpace {
    const known = this.#spaces.get(prefix)
    if (known) return known
    const space: StateSpace = new Map()
    this.#spaces.set(prefix, space)
    return space
  }

  /** After a "=", a key holds the identity itself, and only that is looked up. */
  #locate(key: string) {
    const end = key.indexOf('=') + 1
    return { space: this.open(key.slice(0, end)), name: key.slice(end) }
  }

  /** Forgets the keys that were written longest ago: two a write while they have expired, and any beyond the bound. */
  #evict(): void {
    for (let steps = 2; this.#size > 0; steps--) {
      const oldest = this.#ends.newer
      const isExpired = oldest.expiresAtMs < this.#nowMs
      if (this.#size <= this.#maxKeys && (steps === 0 || !isExpired)) return
      this.#remove(oldest)
    }
  }

  #remove(entry: StateEntry): void {
    entry.space.delete(entry.name)
    this.#size--
    unlink(entry)
  }
}

function createRing(space: StateSpace, name: string, state: unknown): StateEntry {
  const entry = { space, name, state, expiresAtMs: 0 } as StateEntry
  entry.older = entry
  entry.newer = entry
  return entry
}

function unlink({ older, newer }: StateEntry): void {
  older.newer = newer
  newer.older = older
}

function linkBefore(newer: StateEntry, entry: StateEntry): void {
  const { older } = newer
  entry.older = older
  entry.newer = newer
  older.newer = entry
  newer.older = entry
}
