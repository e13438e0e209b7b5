/** `sluice policies`: shows, compares and pushes policies, and goes back to earlier versions. */
import { Argument, Option } from '@commander-js/extra-typings'
import { listNames } from '../core/runtime/lists.ts'
import type { Revision } from '../core/store/documents.ts'
import * as operations from '../gateway/admin/operations/policies.ts'
import { rules as currentRules } from '../gateway/admin/operations/rules.ts'
import * as history from '../gateway/admin/operations/versions.ts'
import { NO_RULES, type Rules } from '../gateway/rules/document.ts'
import { dropEnded, SECTIONS, type Section, withSection } from '../gateway/rules/edit-rules.ts'
import { diffPolicies, type PolicyChange } from '../gateway/rules/rule-policies.ts'
import { CommandError } from './command-error.ts'
import type { Operator } from './operate/operator.ts'
import { ACTOR, COMMENT, declareOptions, type OperatorOptions, readNote } from './operate/options.ts'
import { withOperator } from './operate/with-operator.ts'
import { formatTables, readPolicyFile } from './policy-file.ts'
import { type Context, defineCommand, YES } from './subcommand.ts'

type Action = readonly [
  minWords: number,
  maxWords: number,
  expected: string,
  run: (task: PoliciesTask) => Promise<void>,
]

const ACTIONS = {
  show: [0, 1, 'at most a version', show],
  diff: [1, 2, 'a file or a version, and at most another version', diff],
  push: [1, 1, 'a file, - for standard input, or --clear', push],
  versions: [0, 0, 'nothing', listVersions],
  rollback: [1, 1, 'a version', rollBack],
} satisfies Readonly<Record<string, Action>>

export const policies = defineCommand({
  name: 'policies',
  summary: 'change the policies without a deploy, and go back',
  description:
    'Shows and replaces the policies of POLICIES, without a deploy: Workers with RULES = "on" follow within twice ' +
    'RULES_REFRESH_MS. push takes a file of [[policies]] tables, as in [[vars.POLICIES]], or JSON; - is standard input. It ' +
    'shows the changes, and asks. One more policy with mode = "shadow" tries its limits on live traffic, and refuses ' +
    'nothing. The last 20 versions are stored; rollback brings back the policies of one, or another section of it.',
  examples: {
    'policies show > policies.toml': 'what is in force, as a file',
    'policies diff policies.toml': 'what a file would change',
    'policies push policies.toml --yes --comment "login is attacked"': 'put it in force, in a script',
    'policies versions': 'what there was',
    'policies diff 12': 'what version 12 had',
    'policies rollback 12': 'go back to it',
    'policies rollback 12 --section all': 'and to all else that it had',
    'policies push --clear': 'POLICIES again',
  },
  declare: (command) =>
    declareOptions(
      command
        .addArgument(new Argument('<action>', 'what to do').choices(listNames(ACTIONS)))
        .addArgument(new Argument('[what...]', 'a file for push, a version for rollback and show, either for diff')),
      [
        new Option('--clear', 'push: those of POLICIES again'),
        new Option('--section <name>', 'rollback: of what (default: policies)').choices([...SECTIONS, 'all']),
        YES,
        ACTOR,
        COMMENT,
      ],
    ),
  async run(context, options: PoliciesFlags, action, words) {
    const [min, max, expected, run] = ACTIONS[action]
    const isClear = options.clear && action === 'push'
    // It is checked before a connection is made.
    if (isClear ? words.length > 0 : words.length < min || words.length > max) {
      throw new CommandError(`policies ${action}: expected ${expected}`)
    }
    return withOperator(context, options, 'rules', {}, (operator) => run({ context, operator, options, words }))
  },
})

interface PoliciesFlags extends OperatorOptions {
  readonly clear?: true
  readonly section?: Section
  readonly yes?: true
}

interface PoliciesTask {
  readonly context: Context
  readonly operator: Operator
  readonly options: PoliciesFlags
  readonly words: readonly string[]
}

async function show({ context: { terminal }, operator, words }: PoliciesTask): Promise<void> {
  const { rules, ...revision } = await readVersion(operator, words[0])
  const { deployed } = await operator.run(operations.policies)
  const source = rules.policies === undefined ? 'POLICIES' : 'rules'
  const result = {
    ...operator.counterpart,
    ...revision,
    source,
    policies: rules.policies ?? deployed,
    blocks: rules.blocks.length,
    allows: rules.allows.length,
    overrides: rules.overrides.length,
  }
  terminal.show(result, () => {
    const shown = source === 'rules' ? 'in place of POLICIES' : 'those of POLICIES'
    const { version, at, actor, comment } = toRow(revision)
    const written = version === '0' ? 'no rules yet' : `version ${version}, ${at} by ${actor}: ${comment}`
    const tables = result.policies.length > 0 ? formatTables(result.policies) : '# none: RATE_LIMITS alone'
    return [`# ${written}`, `# ${shown}`, tables].join('\n')
  })
}

async function diff({ context, operator, words }: PoliciesTask): Promise<void> {
  const [one = '', other] = words
  const { deployed } = await operator.run(operations.policies)
  const tablesIn = ({ rules }: Version) => rules.policies ?? deployed
  const newest = await readVersion(operator)
  const isVersion = /^\d+$/.test(one)
  const tables = isVersion ? tablesIn(await readVersion(operator, one)) : await readPolicyFile(one, context, operator)
  const against = tablesIn(other === undefined ? newest : await readVersion(operator, other))
  // A file is compared as the next state, a version as the state before.
  const changes = isVersion ? diffPolicies(tables, against) : diffPolicies(against, tables)
  const result = { ...operator.counterpart, version: newest.version, changes }
  context.terminal.show(result, () => formatChanges(changes).join('\n'))
}

async function push(task: PoliciesTask): Promise<void> {
  const { context, operator, options, words } = task
  const [file] = words
  const tables = file === undefined ? undefined : await readPolicyFile(file, context, operator)
  const newest = await readVersion(operator)
  const after = dropEnded({ ...newest.rules, policies: tables }, Date.now())
  const comment = file && `policies push ${file}`
  const note = readNote(context, { comment, ...options })
  await write(task, newest, after, operations.push, { policies: tables ?? null, ...note })
}

async function rollBack(task: PoliciesTask): Promise<void> {
  const { context, operator, options, words } = task
  const { section = 'policies' } = options
  const { version, rules } = await readVersion(operator, words[0])
  const newest = await readVersion(operator).catch((error) => {
    if (section === 'all') return readRevision(operator)
    throw error
  })
  const after = dropEnded(withSection(newest.rules, rules, section), Date.now())
  await write(task, newest, after, history.rollback, { version, section, ...readNote(context, options) })
}

/** Shows the changes, asks, and writes unless the rules have changed meanwhile. */
async function write(
  { context, operator, options: { yes } }: PoliciesTask,
  { version, id, rules: before }: Version,
  after: Rules,
  operation: typeof operations.push | typeof history.rollback,
  input: object,
): Promise<void> {
  const { terminal } = context
  const { deployed } = await operator.run(operations.policies)
  const changes = diffPolicies(before.policies ?? deployed, after.policies ?? deployed)
  const lines = [
    ...(changes.length === 0 ? [] : formatChanges(changes)),
    ...(['blocks', 'allows', 'overrides'] as const)
      .filter((kind) => JSON.stringify(before[kind]) !== JSON.stringify(after[kind]))
      .map((kind) => `${kind}: ${before[kind].length} → ${after[kind].length}`),
  ]
  if (!yes) for (const line of lines) terminal.note(line)
  if (!yes && !(await terminal.confirm(`Write this at ${operator.name}?`, 'Add --yes to write it.'))) {
    terminal.show({ ...operator.counterpart, version, changed: false, changes }, () => 'nothing was written.')
    return
  }
  const expected = { expectedVersion: version, expectedId: id }
  const { version: written, changed } = await operator.run(operation, { ...input, ...expected })
  const end = changed ? `version ${written} at ${operator.name}` : `unchanged: version ${written}`
  const result = { ...operator.counterpart, version: written, changed, changes }
  terminal.show(result, () => [...(yes ? lines : []), end].join('\n'))
}

async function listVersions({ context: { terminal }, operator }: PoliciesTask): Promise<void> {
  const { versions } = await operator.run(history.versions)
  terminal.show({ ...operator.counterpart, versions }, () =>
    versions.length === 0 ? 'no rules yet' : terminal.formatTable(versions.map(toRow)),
  )
}

type Version = Revision & { readonly rules: Rules }

const NO_VERSION: Version = { version: 0, id: '', atMs: 0, actor: '', comment: '', rules: NO_RULES }

/** @param text the number of a version; undefined: the newest @throws {CommandError} */
async function readVersion(operator: Operator, text?: string): Promise<Version> {
  if (text !== undefined && !/^\d{1,15}$/.test(text)) {
    throw new CommandError(`expected the number of a version, got ${JSON.stringify(text.slice(0, 100))}`)
  }
  if (Number(text) === 0) return NO_VERSION
  const named = { version: `${Number(text)}` }
  const answer = await (text === undefined ? operator.run(currentRules) : operator.run(history.version, named))
  const { version, id, atMs, actor, comment, rules } = answer
  return { version, id, atMs, actor, comment, rules: { ...rules, policies: rules.policies ?? undefined } }
}

/** Reads the newest version without its rules, which may be invalid. */
async function readRevision(operator: Operator): Promise<Version> {
  const { versions } = await operator.run(history.versions)
  return { ...NO_VERSION, ...versions[0] }
}

/** Removes line breaks from notes, which others have written. */
function toRow({ version, atMs, actor, comment }: Revision) {
  const toLine = (note: string) => note.replace(/\p{Cc}+/gu, ' ')
  return { version: `${version}`, at: new Date(atMs).toISOString(), actor: toLine(actor), comment: toLine(comment) }
}

function formatChanges(changes: readonly PolicyChange[]): string[] {
  if (changes.length === 0) return ['no policy is different']
  return changes.flatMap(({ policy, change, keys }) => [
    `${SIGNS[change]} ${policy} (${change})`,
    ...keys.map(({ key, before, after }) =>
      change === 'changed' ? `    ${key}: ${before ?? 'none'} → ${after ?? 'none'}` : `    ${key}: ${before ?? after}`,
    ),
  ])
}

const SIGNS = { added: '+', removed: '-', changed: '~' } as const
