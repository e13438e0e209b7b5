import type { LearnedTier } from './notes.ts'
import type { ServerLimit } from './server-limit.ts'

/** A limit that was not mentioned for this long, and for two of its windows, is forgotten. */
export const FORGOTTEN_AFTER_MS = 3_600_000

const MOST_TIERS = 16

/** The longest window that policies may have: 53 weeks. */
const LONGEST_WINDOW_MS = 53 * 7 * 86_400_000

interface KnownTier extends LearnedTier {
  readonly heardAtMs: number
}

/** What is known about the limits of a server, by their names. */
export class KnownTiers {
  /** In the order in which they were last mentioned. */
  readonly #tiers = new Map<string, KnownTier>()

  get size(): number {
    return this.#tiers.size
  }

  clear(): void {
    this.#tiers.clear()
  }

  get(name: string): LearnedTier | undefined {
    return this.#tiers.get(name)
  }

  [Symbol.iterator](): Iterator<LearnedTier> {
    return this.#tiers.values()
  }

  /**
   * Takes in what a response says of a limit.
   * @param cost units of the call that it answers
   * @returns whether it is new
   */
  hear(said: ServerLimit, cost: number, nowMs: number): boolean {
    const known = this.#tiers.get(said.name)
    // A window that is not told is at least as long as any reset that was.
    const seenMs = Math.max(known?.windowMs ?? 0, said.resetMs ?? 0)
    const windowMs = Math.min(said.windowMs ?? seenMs, LONGEST_WINDOW_MS)
    const limit = said.limit ?? Math.max(known?.limit ?? 0, (said.remaining ?? 0) + cost)
    if (windowMs < 1 || limit < 1) return false
    this.#set({ name: said.name, limit, windowMs }, nowMs)
    return known?.limit !== limit || known.windowMs !== windowMs
  }

  /** Takes in what another process has learned, as far as it is stricter: what was loosened is heard from the server. */
  adopt({ name, limit, windowMs }: LearnedTier, nowMs: number): void {
    const known = this.#tiers.get(name)
    if (known && known.limit <= limit && known.windowMs >= windowMs) return
    const stricter = {
      limit: Math.min(limit, known?.limit ?? limit),
      windowMs: Math.max(windowMs, known?.windowMs ?? 0),
    }
    this.#set({ name, ...stricter }, nowMs)
  }

  #set(tier: LearnedTier, nowMs: number): void {
    this.#tiers.delete(tier.name)
    this.#tiers.set(tier.name, { ...tier, heardAtMs: nowMs })
    for (const { name, heardAtMs, windowMs } of this.#tiers.values()) {
      const isOld = nowMs - heardAtMs > Math.max(FORGOTTEN_AFTER_MS, 2 * windowMs)
      if (isOld || this.#tiers.size > MOST_TIERS) this.#tiers.delete(name)
    }
  }
}
