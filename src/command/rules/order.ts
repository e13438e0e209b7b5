import type { Operation } from '../../admin/operation.ts'
import { rules } from '../../admin/operations/rules.ts'
import { isOver } from '../../rules/document.ts'
import type { Entries, EntryList } from '../../rules/edits.ts'
import { whoInWords } from '../../rules/in-words.ts'
import type { Target } from '../../rules/target.ts'
import { CommandError, type Exit } from '../command-error.ts'
import type { Operator } from '../operate/operator.ts'
import { withOperator } from '../operate/with-operator.ts'
import type { Context, Fields } from '../subcommand.ts'
import type { Terminal } from '../terminal.ts'
import type { Lasting } from './lasting.ts'
import { noteOf } from './note-of.ts'
import { readWho, type Who } from './who.ts'

/** Blocks, allows or overrides. */
export interface Kind<List extends EntryList> {
  /** Of one, in messages. */
  readonly name: string
  readonly list: List
  /** What writes one, or takes it back. */
  readonly operation: Operation<unknown, Ordered, unknown>
  /** What it says, in a few words. */
  shown(entry: Entries[List]): string
  /** As `--json` prints it. */
  toJson(entry: Entries[List]): object
}

interface Ordered {
  readonly version: number
  readonly isChanged: boolean
  readonly who: Target
  readonly scope: 'all' | 'counted'
  /** Null: it was taken back. */
  readonly entry: object | null
}

export interface OrderOptions extends Who, Lasting {}

/** Fields of `--json` that all three have. */
export const ORDER_FIELDS = {
  redis: 'host and port of the database; with --gateway, `gateway` in place of it: its host',
  version: 'version of the rules; 0: there are none',
  changed: 'whether this run has written it',
  scope:
    'of which requests of a caller that was named: "all", or by a digest alone "counted", those to which a policy applies that counts by all that it was made of',
  'entries[].by': 'what the caller is known by, such as token; missing where that is not said',
  'entries[].digest': 'its digest, as in keys and logs',
  'entries[].mark': 'beside by and digest: a small hash of the same, by which others are told at once',
  'entries[].value': 'in place of a digest: a value with one *',
  'entries[].cidr': 'in place of a caller: a network',
  'entries[].reason': 'why; missing if none was given',
  'entries[].until': 'when it ends, in RFC 3339; missing: never',
} as const satisfies Fields

/** A digest of several things, such as a token and a route, says nothing of other requests of its caller. */
const COUNTED_NOTE =
  'note: by a digest alone, it holds only for requests to which a policy applies that counts by all that the digest was made of'

/** Writes an entry, takes it back, or lists all. @param said what it says, beside whom it is about */
export async function runOrder<List extends EntryList>(
  context: Context,
  kind: Kind<List>,
  token: string | undefined,
  { list, remove, reason, until, for: duration, ...options }: OrderOptions,
  said: Partial<Entries[List]>,
): Promise<Exit> {
  const who = await readWho(context.terminal, token, options)
  if ((who === undefined) !== (list === true)) {
    throw new CommandError(who ? 'expected nobody with --list' : `expected whom the ${kind.name} is about`, {
      hint: `sluice help ${kind.name} says how to name them; --list shows all.`,
    })
  }
  const isDigested = who !== undefined && !('digest' in who || 'cidr' in who || 'country' in who || 'asn' in who)
  const task = { about: 'rules', makesDigests: isDigested && !('value' in who) } as const
  return withOperator<Exit>(context, options, task, async (operator) => {
    if (!who) return showAll(context.terminal, operator, kind)
    const body = { who, ...said, reason, until, for: duration, remove, ...noteOf(context, options) }
    const { version, isChanged: changed, entry, scope, ...about } = await operator.ask(kind.operation, { body })
    const entries = entry === null ? [] : [entry as Entries[List]]
    const done = `${kind.name} ${whoInWords(about.who)}`
    const head = changed ? `${remove ? 'taken back: ' : ''}${done}` : `nothing is different: ${done}`
    const result = { ...operator.shown, version, changed, scope, entries }
    if (scope === 'counted' && !remove) context.terminal.note(COUNTED_NOTE)
    show(context.terminal, result, kind, `${head} (version ${version} at ${operator.name})`)
    return 'done'
  })
}

async function showAll<List extends EntryList>(
  terminal: Terminal,
  operator: Operator,
  kind: Kind<List>,
): Promise<Exit> {
  const { version, rules: document } = await operator.ask(rules)
  const entries = document[kind.list] as readonly Entries[List][]
  show(terminal, { ...operator.shown, version, changed: false, entries }, kind, `no ${kind.name}`)
  return 'done'
}

interface Result<Entry> {
  readonly version: number
  readonly changed: boolean
  readonly entries: readonly Entry[]
}

function show<List extends EntryList>(
  terminal: Terminal,
  result: Result<Entries[List]>,
  kind: Kind<List>,
  head: string,
): void {
  terminal.show({ ...result, entries: result.entries.map(kind.toJson) }, () => {
    if (result.entries.length === 0) return head
    const rows = result.entries.map((entry) => [
      whoInWords(entry),
      kind.shown(entry),
      `${entry.until ?? ''}${isOver(entry, Date.now()) ? ' (ended)' : ''}`,
      entry.reason ?? '',
    ])
    const table = terminal.table(['who', kind.name, 'until', 'reason'], rows)
    return result.changed ? `${head}\n${table}` : table
  })
}
