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

/** A limit that the server has reported. */
export interface LearnedTier {
  readonly name: string
  readonly limit: number
  readonly windowMs: number
}

/** What one process has learned of a partition. */
export interface Note {
  readonly tiers: readonly LearnedTier[]
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
    const isNote = Array.isArray(tiers) && tiers.every(isTier) && Number.isFinite(pausedUntilMs)
    return isNote ? { tiers, pausedUntilMs } : undefined
  } catch {
    return undefined
  }
}

function isTier(tier: Partial<LearnedTier> | null): boolean {
  const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 1
  return typeof tier?.name === 'string' && isCount(tier.limit) && isCount(tier.windowMs)
}
