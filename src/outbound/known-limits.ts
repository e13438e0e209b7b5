import type { ServerLimit } from './server-limit.ts'

/** A limit that was not mentioned for this long, and for two of its windows, is forgotten. */
export const FORGOTTEN_AFTER_MS = 3_600_000

const MAX_LIMITS = 16

/** The longest window that policies may have: 53 weeks. */
const MAX_WINDOW_MS = 53 * 7 * 86_400_000

/** A limit that the server has reported. */
export interface KnownLimit {
  readonly name: string
  readonly limit: number
  readonly windowMs: number
}

/** What is known about the limits of a server, by their names. What it said last wins. */
export class KnownLimits {
  /** In the order in which they were last mentioned. */
  readonly #limits = new Map<string, KnownLimit & { readonly saidAtMs: number }>()

  get size(): number {
    return this.#limits.size
  }

  clear(): void {
    this.#limits.clear()
  }

  get(name: string): KnownLimit | undefined {
    return this.#limits.get(name)
  }

  [Symbol.iterator](): Iterator<KnownLimit> {
    return this.#limits.values()
  }

  /**
   * Takes in what a response says of a limit.
   * @param cost units of the call that it answers
   * @returns whether it is new
   */
  update(said: ServerLimit, cost: number, nowMs: number): boolean {
    const known = this.#limits.get(said.name)
    // A window that is not told is at least as long as any reset that was.
    const seenMs = Math.max(known?.windowMs ?? 0, said.resetMs ?? 0)
    const windowMs = Math.min(said.windowMs ?? seenMs, MAX_WINDOW_MS)
    const limit = said.limit ?? Math.max(known?.limit ?? 0, (said.remaining ?? 0) + cost)
    if (windowMs < 1 || limit < 1) return false
    this.set({ name: said.name, limit, windowMs }, nowMs)
    return known?.limit !== limit || known.windowMs !== windowMs
  }

  set({ name, limit, windowMs }: KnownLimit, nowMs: number): void {
    this.#limits.delete(name)
    this.#limits.set(name, { name, limit, windowMs, saidAtMs: nowMs })
    for (const { name, saidAtMs, windowMs } of this.#limits.values()) {
      const isOld = nowMs - saidAtMs > Math.max(FORGOTTEN_AFTER_MS, 2 * windowMs)
      if (isOld || this.#limits.size > MAX_LIMITS) this.#limits.delete(name)
    }
  }
}

/**
 * Where processes tell each other what a server said. Any Redis client will do, e.g. with `@redis/client`:
 *
 *     { read: (key) => redis.get(key), write: (key, text, ttlMs) => redis.set(key, text, { PX: ttlMs }) }
 */
export interface Notes {
  /** @returns the text written last; anything but a string if there is none */
  read(key: string): Promise<unknown>
  /** @param ttlMs milliseconds for which it is kept, an integer from 1 */
  write(key: string, text: string, ttlMs: number): Promise<unknown>
}

/** What one process has learned of a server. */
export interface Note {
  readonly tiers: readonly KnownLimit[]
  /** No call is made before, by the clock of the store. */
  readonly pausedUntilMs: number
}

/** Keeps clients from reading the JSON themselves. */
const MARK = 'sluice-outbound '

export function formatNote({ tiers, pausedUntilMs }: Note): string {
  return (
    MARK +
    JSON.stringify({ tiers: tiers.map(({ name, limit, windowMs }) => ({ name, limit, windowMs })), pausedUntilMs })
  )
}

/** @returns undefined for anything that was not written here */
export function parseNote(text: unknown): Note | undefined {
  if (typeof text !== 'string' || !text.startsWith(MARK)) return undefined
  try {
    const { tiers, pausedUntilMs } = JSON.parse(text.slice(MARK.length)) as Note
    const isNote = Array.isArray(tiers) && tiers.every(isKnownLimit) && Number.isFinite(pausedUntilMs)
    return isNote ? { tiers, pausedUntilMs } : undefined
  } catch {
    return undefined
  }
}

function isKnownLimit(value: Partial<KnownLimit> | null): boolean {
  const isCount = (number: unknown) => Number.isSafeInteger(number) && (number as number) >= 1
  return typeof value?.name === 'string' && isCount(value.limit) && isCount(value.windowMs)
}
