import { Argument, Option } from '@commander-js/extra-typings'
import { NO_RULES, parseRules, type Rules } from '../rules/document.ts'
import { currentRules } from '../rules/editor.ts'
import { withPolicies } from '../rules/edits.ts'
import type { PolicyList } from '../rules/policies.ts'
import { configOf } from './caller/ask.ts'
import { CommandError } from './command-error.ts'
import type { Exit } from './exit-codes.ts'
import type { Connection } from './redis/connection.ts'
import { AS, WHY } from './rules/lasting.ts'
import { linesOfChanges, policyChanges } from './rules/policy-changes.ts'
import { configuredTables, readPolicyFile, type Tables, textOfTables } from './rules/policy-file.ts'
import { noteOf, type RulesOfWorker, rulesNote, withRules } from './rules/rules-of-worker.ts'
import { CONFIG, ENV, REDIS } from './settings/options.ts'
import { readSettings, type Settings } from './settings/settings.ts'
import { type Context, defineCommand } from './subcommand.ts'

const ACTIONS = ['show', 'diff', 'push', 'versions', 'rollback'] as const
type Action = (typeof ACTIONS)[number]

export const policies = defineCommand({
  name: 'policies',
  summary: 'change the policies without a deploy, and go back',
  description:
    'Shows and replaces the policies that hold in place of POLICIES, without a deploy: Workers with RULES = "on" follow ' +
    'within twice RULES_REFRESH_MS. RATE_LIMITS and the other variables stay. push takes a file of [[policies]] tables, ' +
    'as in [[vars.POLICIES]], or JSON; - is standard input. It shows what becomes different, and asks. With --shadow, the ' +
    'policies decide beside those in force, and refuse nothing. The last 20 versions are kept; rollback brings back all ' +
    'rules of one, blocks, allows and overrides among them.',
  examples: [
    { shows: 'what is in force, as a file', line: 'policies show > policies.toml' },
    { shows: 'what a file would change', line: 'policies diff policies.toml' },
    { shows: 'what it would refuse, while nothing is refused by it', line: 'policies push policies.toml --shadow' },
    { shows: 'put it in force, in a script', line: 'policies push policies.toml --yes --why "login is attacked"' },
    { shows: 'what there was', line: 'policies versions' },
    { shows: 'what version 12 had', line: 'policies diff 12' },
    { shows: 'go back to it', line: 'policies rollback 12' },
    { shows: 'POLICIES again', line: 'policies push --none' },
  ],
  json: {
    redis: 'host and port of the database',
    version: 'version of the rules; 0: there are none',
    changed: 'push and rollback: whether this run has written it',
    atMs: 'show: when it was written, in ms since the Unix epoch; 0: never',
    by: 'show: by whom',
    why: 'show: why',
    'policies[]': 'show: tables in place of POLICIES, with the keys that they have there',
    'policies[].*': 'these keys',
    'shadow[]': 'show: tables that decide beside them',
    'shadow[].*': 'their keys',
    blocks: 'show: number of blocks',
    allows: 'show: number of allows',
    overrides: 'show: number of overrides',
    inForce: 'show: "rules" if the tables are those of the rules, "POLICIES" if they are those of the variable',
    'changes[].policy': 'diff, push, rollback: name of a policy that is different',
    'changes[].change': '"added", "removed" or "changed"',
    'changes[].keys[].key': 'a key that is different',
    'changes[].keys[].before': 'its value before, as JSON; null: it had none',
    'changes[].keys[].after': 'and after',
    'versions[].version': 'versions: one that is kept, the newest first',
    'versions[].atMs': 'when it was written, in ms since the Unix epoch',
    'versions[].by': 'by whom',
    'versions[].why': 'why',
  },
  declare: (command) =>
    command
      .addArgument(new Argument('<action>', 'what to do').choices(ACTIONS))
      .addArgument(new Argument('[what...]', 'a file for push, a version for rollback and show, either for diff'))
      .addOption(new Option('--shadow', 'push, diff, show: those that decide beside the ones in force'))
      .addOption(new Option('--none', 'push: none of the rules: POLICIES again, or no shadow any more'))
      .addOption(new Option('-y, --yes', 'do not ask'))
      .addOption(AS)
      .addOption(WHY)
      .addOption(CONFIG)
      .addOption(ENV)
      .addOption(REDIS),
  async run(context, options, action, words) {
    const { terminal, env, cwd } = context
    const settings = readSettings({ cwd, shell: env, config: options.config, env: options.env, view: 'development' })
    // Told before a database is asked.
    configOf(settings)
    checkWords(action, words, options)
    return withRules<Exit>(context, settings, options.redis, (rules, connection) => {
      const note = rulesNote(settings)
      if (note !== undefined) terminal.note(note)
      return DO[action]({ context, settings, rules, connection, options, words })
    })
  },
})

interface Options {
  readonly shadow?: true | undefined
  readonly none?: true | undefined
  readonly yes?: true | undefined
  readonly as?: string | undefined
  readonly why?: string | undefined
}

interface Task {
  readonly context: Context
  readonly settings: Settings
  readonly rules: RulesOfWorker
  readonly connection: Connection
  readonly options: Options
  readonly words: readonly string[]
}

const MOST_WORDS: Readonly<Record<Action, number>> = { show: 1, diff: 2, push: 1, versions: 0, rollback: 1 }
const LEAST_WORDS: Readonly<Record<Action, number>> = { show: 0, diff: 1, push: 1, versions: 0, rollback: 1 }
const EXPECTED: Readonly<Record<Action, string>> = {
  show: 'at most a version',
  diff: 'a file or a version, and at most another version',
  push: 'a file, - for standard input, or --none',
  versions: 'nothing',
  rollback: 'a version',
}

/** @throws {CommandError} */
function checkWords(action: Action, words: readonly string[], { none }: Options): void {
  const [least, most] = none && action === 'push' ? [0, 0] : [LEAST_WORDS[action], MOST_WORDS[action]]
  if (words.length >= least && words.length <= most) return
  throw new CommandError(`policies ${action}: expected ${EXPECTED[action]}`)
}

const DO: Readonly<Record<Action, (task: Task) => Promise<Exit>>> = { show, diff, push, versions, rollback }

async function show({ context: { terminal }, settings, rules, connection, options, words }: Task): Promise<Exit> {
  const [word] = words
  const { rules: found, ...revision } =
    word === undefined ? await currentRules(rules.documents) : await versionOf(rules, readVersion(word))
  const tables = tablesOf(found, settings, listOf(options))
  const inForce = found.policies === undefined ? 'POLICIES' : 'rules'
  const result = {
    redis: connection.name,
    ...revision,
    inForce,
    policies: tablesOf(found, settings, 'policies'),
    shadow: found.shadow ?? [],
    blocks: found.blocks.length,
    allows: found.allows.length,
    overrides: found.overrides.length,
  }
  terminal.show(result, () => {
    const { version, atMs, by, why } = revision
    const source = options.shadow ? 'in shadow' : inForce === 'rules' ? 'in place of POLICIES' : 'those of POLICIES'
    const written =
      version === 0 ? 'no rules yet' : `version ${version}, ${dateOf(atMs)} by ${plain(by)}: ${plain(why)}`
    // What is printed can be pushed.
    return [`# ${written}`, `# ${source}`, textOfTables(tables)].join('\n')
  })
  return 'done'
}

async function diff({ context, settings, rules, connection, options, words }: Task): Promise<Exit> {
  const { terminal } = context
  const [one = '', other] = words
  const list = listOf(options)
  const newest = await currentRules(rules.documents)
  const isVersion = /^\d+$/.test(one)
  const named = isVersion
    ? tablesOf((await versionOf(rules, readVersion(one))).rules, settings, list)
    : await readPolicyFile(one, context, settings, list)
  const against =
    other === undefined
      ? tablesOf(newest.rules, settings, list)
      : tablesOf((await versionOf(rules, readVersion(other))).rules, settings, list)
  // A file is what may come; a version is what was.
  const changes = isVersion ? policyChanges(named, against) : policyChanges(against, named)
  terminal.show({ redis: connection.name, version: newest.version, changes }, () => linesOfChanges(changes).join('\n'))
  return 'done'
}

async function push(task: Task): Promise<Exit> {
  const { context, settings, rules, options, words } = task
  const list = listOf(options)
  const [file] = words
  const tables = file === undefined ? undefined : await readPolicyFile(file, context, settings, list)
  const { version, rules: before } = await currentRules(rules.documents)
  const after = withPolicies(before, tables, list === 'shadow', Date.now())
  const usual = file === undefined ? `no ${list} of the rules` : `policies push ${file}`
  return write(task, { version, before, after, usual }, (note) =>
    rules.changeChecked((found) => withPolicies(found, tables, list === 'shadow', Date.now()), note, version),
  )
}

async function rollback(task: Task): Promise<Exit> {
  const { rules, words } = task
  const to = readVersion(words[0] ?? '')
  const { rules: after } = await versionOf(rules, to)
  const { version, rules: before } = await currentRules(rules.documents)
  return write(task, { version, before, after, usual: `roll back to version ${to}` }, (note) =>
    rules.rollBack(to, note, version),
  )
}

interface Step {
  /** The newest, which was looked at. */
  readonly version: number
  readonly before: Rules
  readonly after: Rules
  readonly usual: string
}

/** Shows what becomes different, asks, and writes it if nobody else has done so meanwhile. */
async function write(
  { context, settings, connection, options }: Task,
  { version, before, after, usual }: Step,
  change: (note: ReturnType<typeof noteOf>) => ReturnType<RulesOfWorker['changeChecked']>,
): Promise<Exit> {
  const { terminal, signal } = context
  const [inForce, inShadow] = (['policies', 'shadow'] as const).map((list) =>
    policyChanges(tablesOf(before, settings, list), tablesOf(after, settings, list)),
  )
  const changes = inForce?.length === 0 ? (inShadow ?? []) : (inForce ?? [])
  const lines = [
    ...(inForce?.length === 0 ? [] : ['in force:', ...linesOfChanges(inForce ?? [])]),
    ...(inShadow?.length === 0 ? [] : ['in shadow:', ...linesOfChanges(inShadow ?? [])]),
    ...(['blocks', 'allows', 'overrides'] as const)
      .filter((kind) => JSON.stringify(before[kind]) !== JSON.stringify(after[kind]))
      .map((kind) => `${kind}: ${before[kind].length} → ${after[kind].length}`),
  ]
  if (!options.yes) {
    for (const line of lines) terminal.note(line)
    const answer = await terminal.confirm(`Write this at ${connection.name}?`, signal)
    if (answer === undefined) throw new CommandError('there is no terminal to ask', { hint: 'Add --yes to write it.' })
    if (!answer) {
      terminal.show({ redis: connection.name, version, changed: false, changes }, () => 'nothing was written.')
      return 'done'
    }
  }
  const edited = await change(noteOf(context, options, usual))
  const changed = edited.kind === 'written'
  terminal.show({ redis: connection.name, version: edited.version, changed, changes }, () =>
    [
      ...(options.yes ? lines : []),
      changed ? `version ${edited.version} at ${connection.name}` : `nothing is different: version ${edited.version}`,
    ].join('\n'),
  )
  return 'done'
}

async function versions({ context: { terminal }, rules, connection }: Task): Promise<Exit> {
  const history = await rules.documents.history()
  const version = history[0]?.version ?? 0
  terminal.show({ redis: connection.name, version, versions: history }, () => {
    if (history.length === 0) return 'no rules yet'
    const rows = history.map(({ version, atMs, by, why }) => [version, dateOf(atMs), plain(by), plain(why)])
    return terminal.table(['version', 'at', 'by', 'why'], rows)
  })
  return 'done'
}

/** @throws {CommandError} */
async function versionOf({ documents }: RulesOfWorker, version: number) {
  const found = version === 0 ? undefined : await documents.readVersion(version)
  if (found) {
    const { text, ...revision } = found
    return { ...revision, rules: parseRules(text) }
  }
  if (version === 0) return { version, atMs: 0, by: '', why: '', rules: NO_RULES }
  throw new CommandError(`version ${version} is not kept`, { hint: 'sluice policies versions lists those that are.' })
}

/** @throws {CommandError} */
function readVersion(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new CommandError(`expected the number of a version, got ${JSON.stringify(text.slice(0, 100))}`)
}

function listOf({ shadow }: Options): PolicyList {
  return shadow ? 'shadow' : 'policies'
}

function tablesOf(rules: Rules, settings: Settings, list: PolicyList): Tables {
  return list === 'shadow' ? (rules.shadow ?? []) : (rules.policies ?? configuredTables(settings))
}

/** On one line: others have written it. */
function plain(note: string): string {
  return note.replace(/\p{Cc}+/gu, ' ')
}

/** As it stands in logs. */
function dateOf(atMs: number): string {
  return new Date(atMs).toISOString()
}
