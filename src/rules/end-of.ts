import { DURATION_EXPECTED, parseDuration } from '../model/limits.ts'
import { isOver } from './document.ts'

/** How somebody says how long something holds. */
export interface Lasts {
  /** A duration, such as `1h`. */
  readonly for?: string | undefined
  /** A moment; whether it can be read as one is looked at with the document. */
  readonly until?: string | undefined
}

/** When it ends, in RFC 3339; undefined: never. Or which of the two is wrong, and what was expected. */
export type End =
  | { readonly until: string | undefined }
  | { readonly wrong: 'for' | 'until'; readonly expected: string }

/** @param nowMs milliseconds since the Unix epoch */
export function endOf({ for: duration, until }: Lasts, nowMs: number): End {
  if (until !== undefined && duration !== undefined) return { wrong: 'for', expected: 'for or until, not both' }
  if (until !== undefined && isOver({ until }, nowMs)) {
    return { wrong: 'until', expected: 'a moment that is yet to come' }
  }
  if (duration === undefined) return { until }
  const lastsMs = parseDuration(duration)
  return lastsMs === undefined
    ? { wrong: 'for', expected: DURATION_EXPECTED }
    : { until: new Date(nowMs + lastsMs).toISOString() }
}
