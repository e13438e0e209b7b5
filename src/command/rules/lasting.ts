/** Options of blocks, allows and overrides, beside whom they are about and what they say. */
import { type Command, Option } from '@commander-js/extra-typings'
import { asking, type Where } from '../operate/with-operator.ts'

const FOR = new Option('--for <duration>', 'how long it holds: 30m 1h 7d; left out, for good')
const UNTIL = new Option('--until <moment>', 'until when, in UTC, such as 2026-12-24T00:00:00Z')
const REASON = new Option('--reason <text>', 'why; a caller who is blocked is told')
const REMOVE = new Option('--remove', 'take it back')
const LIST = new Option('--list', 'show all that there are, and change nothing')
export const AS = new Option('--as <name>', 'who does it, for the history (default: the user of this shell)')
export const WHY = new Option('--why <text>', 'why, for the history')

export interface Lasting extends Where {
  readonly for?: string | undefined
  readonly until?: string | undefined
  readonly reason?: string | undefined
  readonly remove?: true | undefined
  readonly list?: true | undefined
  readonly as?: string | undefined
  readonly why?: string | undefined
}

/** Adds how long it holds and why, what else can be done with it, and where. */
export function lasting<Args extends unknown[], Options extends Record<string, unknown>>(
  command: Command<Args, Options>,
): Command<Args, Options & Lasting> {
  for (const option of [FOR, UNTIL, REASON, REMOVE, LIST, AS, WHY]) command.addOption(option)
  return asking(command) as unknown as Command<Args, Options & Lasting>
}
