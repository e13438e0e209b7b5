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
  /** When it was last mentioned. */
  readonly saidAtMs?: number
}

/** The limits that are known of a server, by their names, in the order in which it last mentioned them. */
export class KnownLimits extends Map<string, KnownLimit> {
  /**
   * Takes in what a response says of a limit.
   * @param cost units of the call that it answers
   * @returns whether it is new
   */
  update(said: ServerLimit, cost: number, nowMs: number): boolean {
    const known = this.get(said.name)
    // A window that is not reported is at least as long as any reset that was.
    const seenMs = Math.max(known?.windowMs ?? 0, said.resetMs ?? 0)
    const windowMs = Math.min(said.windowMs ?? seenMs, MAX_WINDOW_MS)
    const limit = said.limit ?? Math.max(known?.limit ?? 0, (said.remaining ?? 0) + cost)
    if (windowMs < 1 || limit < 1) return false
    this.put({ name: said.name, limit, windowMs }, nowMs)
    return known?.limit !== limit || known.windowMs !== windowMs
  }

  /** Replaces what was known before: the server's last word wins. */
  put({ name, limit, windowMs }: KnownLimit, nowMs: number): void {
    this.delete(name)
    this.set(name, { name, limit, windowMs, saidAtMs: nowMs })
    for (const { name, saidAtMs = 0, windowMs } of this.values()) {
      const isOld = nowMs - saidAtMs > Math.max(FORGOTTEN_AFTER_MS, 2 * windowMs)
      if (isOld || this.size > MAX_LIMITS) this.delete(name)
    }
  }
}

/** The knowledge of one process about a server. */
export interface Note {
  readonly tiers: readonly KnownLimit[]
  /** No call is made before, by the clock of the store. */
  readonly pausedUntilMs: number
}

/** Keeps clients from reading the JSON themselves. */
const MARK = 'sluice-outbound '

export function formatNote(note: Note): string {
  return MARK + JSON.stringify(note)
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
