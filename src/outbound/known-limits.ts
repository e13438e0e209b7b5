/** Remembers the limits that servers report. */
import { MAX_WINDOW_MS } from '../core/model/limits.ts'
import { MAX_LIMITS, type ServerLimit } from './server-limit.ts'

/** A limit is deleted when the server has not reported it for this long, and for two of its windows. */
export const MAX_AGE_MS = 3_600_000

export interface KnownLimit {
  readonly name: string
  readonly limit: number
  readonly windowMs: number
  readonly reportedAtMs?: number
}

/** Limits of a server by name, in the order in which it last reported them. */
export class KnownLimits extends Map<string, KnownLimit> {
  /** @param cost units of the answered call @returns true if the limit is new or has changed */
  update(report: ServerLimit, cost: number, nowMs: number): boolean {
    const known = this.get(report.name)
    // An unreported window is at least as long as any reset that was reported.
    const seenMs = Math.max(known?.windowMs ?? 0, report.resetMs ?? 0)
    const windowMs = Math.min(report.windowMs ?? seenMs, MAX_WINDOW_MS)
    const limit = report.limit ?? Math.max(known?.limit ?? 0, (report.remaining ?? 0) + cost)
    if (windowMs < 1 || limit < 1) return false
    this.put({ name: report.name, limit, windowMs }, nowMs)
    return known?.limit !== limit || known.windowMs !== windowMs
  }

  put({ name, limit, windowMs }: KnownLimit, nowMs: number): void {
    this.delete(name)
    this.set(name, { name, limit, windowMs, reportedAtMs: nowMs })
    for (const { name, reportedAtMs = 0, windowMs } of this.values()) {
      const isOld = nowMs - reportedAtMs > Math.max(MAX_AGE_MS, 2 * windowMs)
      if (isOld || this.size > MAX_LIMITS) this.delete(name)
    }
  }
}

/** Processes share this about a server. */
export interface SharedNote {
  readonly limits: readonly KnownLimit[]
  /** No call is made before, by the clock of the store. */
  readonly pausedUntilMs: number
}

/** Keeps clients from parsing the JSON themselves. */
const MARK = 'sluice-outbound '

export function formatNote(note: SharedNote): string {
  return MARK + JSON.stringify(note)
}

/** @returns undefined for anything that was not written here */
export function parseNote(text: unknown): SharedNote | undefined {
  if (typeof text !== 'string' || !text.startsWith(MARK)) return undefined
  try {
    const note = JSON.parse(text.slice(MARK.length)) as SharedNote
    return note.limits.every(isKnownLimit) && Number.isFinite(note.pausedUntilMs) ? note : undefined
  } catch {
    return undefined
  }
}

function isKnownLimit(value: Partial<KnownLimit> | null): boolean {
  const isCount = (number: unknown) => Number.isSafeInteger(number) && (number as number) >= 1
  return typeof value?.name === 'string' && isCount(value.limit) && isCount(value.windowMs)
}
