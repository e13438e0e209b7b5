/** Options that tell how long something holds, and why. */
import { Option } from '@commander-js/extra-typings'
import { DURATION_EXPECTED, parseDuration } from '../../limit/tiers.ts'
import { CommandError } from '../command-error.ts'

export const FOR = new Option('--for <duration>', 'how long it holds: 30m 1h 7d; left out, for good')
export const UNTIL = new Option('--until <moment>', 'until when, in UTC, such as 2026-12-24T00:00:00Z')
export const REASON = new Option('--reason <text>', 'why; a caller who is blocked is told')
export const REMOVE = new Option('--remove', 'take it back')
export const LIST = new Option('--list', 'show all that there are, and change nothing')
export const AS = new Option('--as <name>', 'who does it, for the history (default: the user of this shell)')
export const WHY = new Option('--why <text>', 'why, for the history')

/** When it ends, in RFC 3339; undefined: never. @param nowMs milliseconds since the Unix epoch @throws {CommandError} */
export function untilOf(
  { for: duration, until }: { readonly for?: string | undefined; readonly until?: string | undefined },
  nowMs: number,
): string | undefined {
  if (until !== undefined && duration !== undefined) throw new CommandError('expected --for or --until, not both')
  if (duration !== undefined) {
    const lastsMs = parseDuration(duration)
    if (lastsMs === undefined) {
      throw new CommandError(`--for: expected ${DURATION_EXPECTED}, got ${JSON.stringify(duration.slice(0, 100))}`)
    }
    return new Date(nowMs + lastsMs).toISOString()
  }
  if (until !== undefined && Date.parse(until) <= nowMs) {
    throw new CommandError('--until: expected a moment that is yet to come')
  }
  return until
}
