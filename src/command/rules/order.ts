import type { Allow, Block, Override, Rules } from '../../rules/document.ts'
import { currentRules } from '../../rules/editor.ts'
import type { Target } from '../../rules/target.ts'
import { configOf, digestNote } from '../caller/ask.ts'
import { CommandError } from '../command-error.ts'
import type { Exit } from '../exit-codes.ts'
import { readSettings } from '../settings/settings.ts'
import type { Context, Fields } from '../subcommand.ts'
import type { Terminal } from '../terminal.ts'
import { untilOf } from './lasting.ts'
import { noteOf, rulesNote, withRules } from './rules-of-worker.ts'
import { nameOfWho, targetOfWho, type Who } from './who.ts'

/** What blocks, allows and overrides have in common. */
export type Entry = Block | Allow | Override

/** One of the three. */
export interface Kind<One extends Entry> {
  /** Of one, in messages. */
  readonly name: string
  /** Whether it has to fit the policies. */
  readonly change: 'change' | 'changeChecked'
  entriesOf(rules: Rules): readonly One[]
  with(rules: Rules, entry: One, nowMs: number): Rules
  without(rules: Rules, target: Target, nowMs: number): Rules
  /** What it says, in a few words. */
  shown(entry: One): string
  /** As `--json` prints it. */
  toJson(entry: One): object
}

export interface OrderOptions extends Who {
  readonly for?: string | undefined
  readonly until?: string | undefined
  readonly reason?: string | undefined
  readonly remove?: true | undefined
  readonly list?: true | undefined
  readonly as?: string | undefined
  readonly why?: string | undefined
  readonly config?: string | undefined
  readonly env?: string | undefined
  readonly redis?: string | undefined
}

/** Fields of `--json` that all three have. */
export const ORDER_FIELDS = {
  redis: 'host and port of the database',
  version: 'version of the rules; 0: there are none',
  changed: 'whether this run has written it',
  'entries[].by': 'what the caller is known by, such as token; missing where that is not said',
  'entries[].digest': 'its digest, as in keys and logs',
  'entries[].value': 'in place of a digest: a value with one *',
  'entries[].cidr': 'in place of a caller: a network',
  'entries[].reason': 'why; missing if none was given',
  'entries[].until': 'when it ends, in RFC 3339; missing: never',
} as const satisfies Fields

/** Writes an entry, takes it back, or lists all. @param said what it says, beside whom it is about */
export async function runOrder<One extends Entry>(
  context: Context,
  kind: Kind<One>,
  token: string | undefined,
  options: OrderOptions,
  said: Partial<One>,
): Promise<Exit> {
  const { terminal, env, cwd } = context
  const { config: file, env: environment, redis, remove, list, reason } = options
  const settings = readSettings({ cwd, shell: env, config: file, env: environment, view: 'development' })
  const nowMs = Date.now()
  const until = untilOf(options, nowMs)
  const target = await targetOfWho(configOf(settings), terminal, token, options)
  if ((target === undefined) !== (list === true)) {
    throw new CommandError(target ? 'expected nobody with --list' : `expected whom the ${kind.name} is about`, {
      hint: `sluice help ${kind.name} says how to name them; --list shows all.`,
    })
  }
  if (remove && [...Object.values(said), reason, until].some((value) => value !== undefined)) {
    throw new CommandError('expected nothing beside --remove but whom it is about')
  }
  return withRules<Exit>(context, settings, redis, async (rules, connection) => {
    const notes = [rulesNote(settings), target?.by === undefined ? undefined : digestNote(settings)]
    for (const note of notes) if (note !== undefined) terminal.note(note)
    if (!target) {
      const { version, rules: document } = await currentRules(rules.documents)
      const entries = kind.entriesOf(document)
      show(terminal, { redis: connection.name, version, changed: false, entries }, kind, `no ${kind.name}`)
      return 'done'
    }
    const lasting = { ...(reason !== undefined && { reason }), ...(until !== undefined && { until }) }
    const entry = { ...target, ...said, ...lasting } as One
    const done = `${kind.name} ${nameOfWho(target)}`
    const note = noteOf(context, options, remove ? `remove ${done}` : done)
    const { version, kind: outcome } = remove
      ? await rules.change((document) => kind.without(document, target, nowMs), note)
      : await rules[kind.change]((document) => kind.with(document, entry, nowMs), note)
    const changed = outcome === 'written'
    const head = changed ? `${remove ? 'taken back: ' : ''}${done}` : `nothing is different: ${done}`
    const result = { redis: connection.name, version, changed, entries: remove ? [] : [entry] }
    show(terminal, result, kind, `${head} (version ${version} at ${connection.name})`)
    return 'done'
  })
}

interface Result<One> {
  readonly redis: string
  readonly version: number
  readonly changed: boolean
  readonly entries: readonly One[]
}

function show<One extends Entry>(terminal: Terminal, result: Result<One>, kind: Kind<One>, head: string): void {
  terminal.show({ ...result, entries: result.entries.map(kind.toJson) }, () => {
    if (result.entries.length === 0) return head
    const rows = result.entries.map((entry) => [
      nameOfWho(entry),
      kind.shown(entry),
      entry.until ?? '',
      entry.reason ?? '',
    ])
    const table = terminal.table(['who', kind.name, 'until', 'reason'], rows)
    return result.changed ? `${head}\n${table}` : table
  })
}
