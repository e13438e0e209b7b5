import { Argument, Option } from '@commander-js/extra-typings'
import * as operations from '../admin/operations/policies.ts'
import { rules as currentRules } from '../admin/operations/rules.ts'
import * as history from '../admin/operations/versions.ts'
import { NO_RULES, type Rules, readRules } from '../rules/document.ts'
import { SECTIONS, type Section, withPolicies, withSection } from '../rules/edits.ts'
import type { PolicyList } from '../rules/policies.ts'
import { policyChanges } from '../rules/policy-changes.ts'
import { tablesOf } from '../rules/tables.ts'
import type { Revision } from '../store/documents.ts'
import { CommandError, type Exit } from './command-error.ts'
import type { Operator } from './operate/operator.ts'
import { asking, withOperator } from './operate/with-operator.ts'
import { AS, WHY } from './rules/lasting.ts'
import { linesOfChanges } from './rules/lines-of-changes.ts'
import { noteOf } from './rules/note-of.ts'
import { readPolicyFile, textOfTables } from './rules/policy-file.ts'
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
    'policies decide beside those in force, and refuse nothing. The last 20 versions are kept; rollback brings back the ' +
    'policies of one, and with --section its shadow, blocks, allows or overrides, or all of them.',
  examples: [
    { shows: 'what is in force, as a file', line: 'policies show > policies.toml' },
    { shows: 'what a file would change', line: 'policies diff policies.toml' },
    { shows: 'what it would refuse, while nothing is refused by it', line: 'policies push policies.toml --shadow' },
    { shows: 'put it in force, in a script', line: 'policies push policies.toml --yes --why "login is attacked"' },
    { shows: 'what there was', line: 'policies versions' },
    { shows: 'what version 12 had', line: 'policies diff 12' },
    { shows: 'go back to it', line: 'policies rollback 12' },
    { shows: 'and to all else that it had', line: 'policies rollback 12 --section all' },
    { shows: 'POLICIES again', line: 'policies push --none' },
  ],
  json: {
    redis: 'host and port of the database; with --gateway, `gateway` in place of it: its host',
    version: 'version of the rules; 0: there are none',
    id: 'show: tells it from others that have its number after a loss of the rules; empty if it is older',
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
    'versions[].id': 'tells it from others that have its number after a loss of the rules; empty if it is older',
    'versions[].atMs': 'when it was written, in ms since the Unix epoch',
    'versions[].by': 'by whom',
    'versions[].why': 'why',
  },
  declare: (command) =>
    asking(
      command
        .addArgument(new Argument('<action>', 'what to do').choices(ACTIONS))
        .addArgument(new Argument('[what...]', 'a file for push, a version for rollback and show, either for diff'))
        .addOption(new Option('--shadow', 'push, diff, show: those that decide beside the ones in force'))
        .addOption(new Option('--none', 'push: none of the rules: POLICIES again, or no shadow any more'))
        .addOption(
          new Option('--section <name>', 'rollback: what is brought back (default: policies)').choices([
            ...SECTIONS,
            'all',
          ]),
        )
        .addOption(new Option('-y, --yes', 'do not ask'))
        .addOption(AS)
        .addOption(WHY),
    ),
  async run(context, options, action, words) {
    // Told before anybody is asked.
    checkWords(action, words, options)
    return withOperator<Exit>(context, options, { about: 'rules', makesDigests: false }, (operator) =>
      DO[action]({ context, operator, options, words }),
    )
  },
})

interface Options {
  readonly shadow?: true | undefined
  readonly none?: true | undefined
  readonly section?: Section | undefined
  readonly yes?: true | undefined
  readonly as?: string | undefined
  readonly why?: string | undefined
}

interface Task {
  readonly context: Context
  readonly operator: Operator
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

async function show({ context: { terminal }, operator, options, words }: Task): Promise<Exit> {
  const [word] = words
  const { rules, ...revision } = word === undefined ? await newestOf(operator) : await versionOf(operator, word)
  const { deployed } = await operator.ask(operations.policies)
  const inForce = rules.policies === undefined ? 'POLICIES' : 'rules'
  const result = {
    ...operator.shown,
    ...revision,
    inForce,
    policies: tablesOf(rules, 'policies', deployed),
    shadow: rules.shadow ?? [],
    blocks: rules.blocks.length,
    allows: rules.allows.length,
    overrides: rules.overrides.length,
  }
  terminal.show(result, () => {
    const { version, atMs, by, why } = revision
    const source = options.shadow ? 'in shadow' : inForce === 'rules' ? 'in place of POLICIES' : 'those of POLICIES'
    const written =
      version === 0 ? 'no rules yet' : `version ${version}, ${dateOf(atMs)} by ${plain(by)}: ${plain(why)}`
    // What is printed can be pushed.
    return [`# ${written}`, `# ${source}`, textOfTables(result[listOf(options)])].join('\n')
  })
  return 'done'
}

async function diff({ context, operator, options, words }: Task): Promise<Exit> {
  const { terminal } = context
  const [one = '', other] = words
  const { deployed } = await operator.ask(operations.policies)
  const tablesIn = ({ rules }: Version) => tablesOf(rules, listOf(options), deployed)
  const newest = await newestOf(operator)
  const isVersion = /^\d+$/.test(one)
  const named = isVersion ? tablesIn(await versionOf(operator, one)) : await readPolicyFile(one, context, operator)
  const against = tablesIn(other === undefined ? newest : await versionOf(operator, other))
  // A file is what may come; a version is what was.
  const changes = isVersion ? policyChanges(named, against) : policyChanges(against, named)
  terminal.show({ ...operator.shown, version: newest.version, changes }, () => linesOfChanges(changes).join('\n'))
  return 'done'
}

async function push(task: Task): Promise<Exit> {
  const { context, operator, options, words } = task
  const isShadow = options.shadow === true
  const [file] = words
  const tables = file === undefined ? undefined : await readPolicyFile(file, context, operator)
  const before = await newestOf(operator)
  const after = withPolicies(before.rules, tables, isShadow, Date.now())
  return write(task, before, after, (expected) => {
    const note = noteOf(context, { why: file && `policies push ${file}${isShadow ? ' --shadow' : ''}`, ...options })
    return operator.ask(operations.push, {
      body: { policies: tables ?? null, shadow: isShadow, ...expected, ...note },
    })
  })
}

async function rollback(task: Task): Promise<Exit> {
  const { context, operator, options, words } = task
  const { section = 'policies' } = options
  const { version, rules: old } = await versionOf(operator, words[0] ?? '')
  const newest = await newestOf(operator)
  const after = withSection(newest.rules, old, section, Date.now())
  return write(task, newest, after, (expected) =>
    operator.ask(history.rollback, { body: { version, section, ...expected, ...noteOf(context, options) } }),
  )
}

/** Shows what becomes different, asks, and writes it if nobody else has done so meanwhile. */
async function write(
  { context: { terminal, signal }, operator, options }: Task,
  { version, id, rules: before }: Version,
  after: Rules,
  change: (expected: Expected) => Promise<{ readonly version: number; readonly isChanged: boolean }>,
): Promise<Exit> {
  const { deployed } = await operator.ask(operations.policies)
  const changed = (list: PolicyList) => policyChanges(tablesOf(before, list, deployed), tablesOf(after, list, deployed))
  const [inForce, inShadow] = [changed('policies'), changed('shadow')]
  const changes = inForce.length === 0 ? inShadow : inForce
  const lines = [
    ...(inForce.length === 0 ? [] : ['in force:', ...linesOfChanges(inForce)]),
    ...(inShadow.length === 0 ? [] : ['in shadow:', ...linesOfChanges(inShadow)]),
    ...(['blocks', 'allows', 'overrides'] as const)
      .filter((kind) => JSON.stringify(before[kind]) !== JSON.stringify(after[kind]))
      .map((kind) => `${kind}: ${before[kind].length} → ${after[kind].length}`),
  ]
  if (!options.yes) {
    for (const line of lines) terminal.note(line)
    const answer = await terminal.confirm(`Write this at ${operator.name}?`, signal)
    if (answer === undefined) throw new CommandError('there is no terminal to ask', { hint: 'Add --yes to write it.' })
    if (!answer) {
      terminal.show({ ...operator.shown, version, changed: false, changes }, () => 'nothing was written.')
      return 'done'
    }
  }
  const edited = await change({ expectedVersion: version, expectedId: id })
  terminal.show({ ...operator.shown, version: edited.version, changed: edited.isChanged, changes }, () =>
    [
      ...(options.yes ? lines : []),
      edited.isChanged
        ? `version ${edited.version} at ${operator.name}`
        : `nothing is different: version ${edited.version}`,
    ].join('\n'),
  )
  return 'done'
}

async function versions({ context: { terminal }, operator }: Task): Promise<Exit> {
  const { versions } = await operator.ask(history.versions)
  const version = versions[0]?.version ?? 0
  terminal.show({ ...operator.shown, version, versions }, () => {
    if (versions.length === 0) return 'no rules yet'
    const rows = versions.map(({ version, atMs, by, why }) => [version, dateOf(atMs), plain(by), plain(why)])
    return terminal.table(['version', 'at', 'by', 'why'], rows)
  })
  return 'done'
}

/** The version that was looked at. */
interface Expected {
  readonly expectedVersion: number
  readonly expectedId: string
}

interface Version extends Revision {
  readonly rules: Rules
}

async function newestOf(operator: Operator): Promise<Version> {
  const { isolate: _, rules, ...revision } = await operator.ask(currentRules)
  return { ...revision, rules: rulesIn(rules) }
}

/** @throws {CommandError} */
async function versionOf(operator: Operator, word: string): Promise<Version> {
  const version = readVersion(word)
  if (version === 0) return { version, id: '', atMs: 0, by: '', why: '', rules: NO_RULES }
  const { rules, ...revision } = await operator.ask(history.version, { query: { version: `${version}` } })
  return { ...revision, rules: rulesIn(rules) }
}

/** A document as the API has it. */
function rulesIn({ policies, shadow, ...entries }: Readonly<Record<string, unknown>>): Rules {
  return readRules({ ...entries, ...(policies !== null && { policies }), ...(shadow !== null && { shadow }) })
}

/** @throws {CommandError} */
function readVersion(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new CommandError(`expected the number of a version, got ${JSON.stringify(text.slice(0, 100))}`)
}

function listOf({ shadow }: Options): PolicyList {
  return shadow ? 'shadow' : 'policies'
}

/** On one line: others have written it. */
function plain(note: string): string {
  return note.replace(/\p{Cc}+/gu, ' ')
}

/** As it stands in logs. */
function dateOf(atMs: number): string {
  return new Date(atMs).toISOString()
}
