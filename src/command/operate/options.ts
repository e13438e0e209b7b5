/** Options for the bodies of operations. The schema of an operation determines the options of its subcommand. */
import { userInfo } from 'node:os'
import { Argument, type Command, Option } from '@commander-js/extra-typings'
import { type CallerKind, type PairKind, SOURCE_KINDS } from '../../core/model/identity-source.ts'
import { anyText } from '../../core/options/readers.ts'
import type { Operation } from '../../gateway/admin/operation.ts'
import { collectClaims, readClaim, readPair } from '../../gateway/callers/caller-in-text.ts'
import { CommandError } from '../command-error.ts'
import { collect, createListOption, createNumberReader, createOption } from '../read-option.ts'
import { CONFIG, type Context, ENV, GATEWAY, REDIS } from '../subcommand.ts'

const TOKEN = new Argument('[token]', 'what the caller sends as Authorization; - reads it from standard input')

const CLAIMS_EXAMPLE = 'sub=alice, id:=42, /account/plan=pro'
const ASN = createNumberReader(/^(?:AS)?(\d{1,10})$/i, 'a number such as 64500')
const STATUS = createNumberReader(/^(\d{3})$/, 'a status from 400 to 599')
const MULTIPLIER = createNumberReader(/^(?=.*[1-9])(\d{1,7}(?:\.\d{1,6})?)$/, 'a number above 0')
const DIGEST = new Option(
  '--digest <digest>',
  'identity as keys and logs have it: 22 characters, in place of all others',
)

export const CALLER_OPTIONS = {
  ip: new Option('--ip <address>', 'address of the caller'),
  header: createPairOption('-H, --header <name=value>', 'header'),
  query: createPairOption('--query <name=value>', 'query'),
  form: createPairOption('--form <name=value>', 'form'),
  cookie: createPairOption('--cookie <name=value>', 'cookie'),
  // `--json` selects the output format.
  json: createPairOption('--json-member </pointer=value>', 'json'),
  claim: new Option('--claim <name=value>', `of its token, unverified: ${CLAIMS_EXAMPLE}`).argParser(collectClaims),
} satisfies Readonly<Record<Exclude<CallerKind, 'token'>, unknown>>

export const CALLER_OPTION_NAMES = Object.values(CALLER_OPTIONS)
  .map(({ long }) => long)
  .join(', ')

export const ACTOR = new Option('--actor <name>', 'who does it, for the audit log (default: the user of this shell)')
export const COMMENT = new Option('--comment <text>', 'why, for the audit log')

// biome-ignore lint/suspicious/noExplicitAny: options of all types
export type AnyOption = Option<any, any, any, any, any, any>
type OptionTable = Readonly<Record<string, AnyOption>>

/** Options by the members of bodies that they set, in the order of the help. */
const OPTIONS: Readonly<Record<'caller' | 'target' | 'body', OptionTable>> = {
  caller: {
    ...CALLER_OPTIONS,
    route: new Option('--route <request>', 'such as "POST /login": only what applies to it'),
    digest: DIGEST,
  },
  target: {
    ...CALLER_OPTIONS,
    claim: new Option('--claim <name=value>', `of its token, with * for any: ${CLAIMS_EXAMPLE}`).argParser(
      readOneClaim,
    ),
    digest: DIGEST,
    cidr: new Option('--cidr <network>', 'all of a network, such as 203.0.113.0/24 or 2001:db8::/32'),
    country: new Option('--country <code>', 'all of a country, as Cloudflare tells it, such as DE; T1 is Tor'),
    asn: createOption('--asn <number>', 'all of a network operator, such as 64500', ASN),
  },
  body: {
    status: createOption('--status <code>', 'of the responses, 400 to 599 except 401 and 407 (default: 403)', STATUS),
    limits: new Option('-l, --limits <limits>', 'login=20/1m, or 50/1s for RATE_LIMITS; repeated').argParser(
      collectLimits,
    ),
    multiplier: createOption('--multiplier <number>', 'a multiple of the limits, such as 10 or 0.5', MULTIPLIER),
    unlimited: new Option('--unlimited', 'count, but never refuse'),
    policies: createPolicyOption('only this policy; may be repeated'),
    for: new Option('--for <duration>', 'how long it applies: 30m 1h 7d (default: permanently)'),
    until: new Option('--until <moment>', 'until when, in UTC, such as 2026-12-24T00:00:00Z'),
    reason: new Option('--reason <text>', 'why, kept with the rule; a blocked caller reads it'),
    remove: new Option('--remove', 'remove it'),
  },
}

/** The common options, and the values of all others by attribute name. */
export interface OperatorOptions {
  readonly config?: string | undefined
  readonly env?: string | undefined
  readonly redis?: string | undefined
  readonly gateway?: string | undefined
  readonly actor?: string | undefined
  readonly comment?: string | undefined
  readonly [attribute: string]: unknown
}

export interface Declaration {
  readonly omit?: readonly string[] | undefined
  readonly own?: readonly AnyOption[]
}

function createPairOption<Flags extends string>(flags: Flags, kind: PairKind) {
  const { noun, example } = SOURCE_KINDS[kind]
  return new Option(flags, `a ${noun} of the caller, such as ${example}`).argParser(collect(readPair))
}

/** Declares a token and an option for each property that the body of an operation may have. */
export function declareBody(
  command: Command,
  { body }: Pick<Operation, 'body'>,
  { omit = [], own = [] }: Declaration = {},
): Command<[token: string | undefined], OperatorOptions> {
  const entries = readEntries(body)
  const find = (table: OptionTable, entries: object) =>
    Object.entries(table).flatMap(([name, option]) => (name in entries && !omit.includes(name) ? [option] : []))
  return declareOptions(command.addArgument(TOKEN), [
    ...find(OPTIONS.caller, readEntries(entries.caller)),
    ...find(OPTIONS.target, readEntries(entries.target)),
    ...find(OPTIONS.body, entries),
    ...own,
    ...('comment' in entries ? [ACTOR, COMMENT] : []),
  ])
}

export function declareOptions<Args extends unknown[], Options extends Record<string, unknown>>(
  command: Command<Args, Options>,
  options: readonly AnyOption[],
): Command<Args, OperatorOptions> {
  for (const option of [...options, CONFIG, ENV, REDIS, GATEWAY]) command.addOption(option)
  return command as unknown as Command<Args, OperatorOptions>
}

/** Reads the members that were given. */
export function readParts(part: keyof typeof OPTIONS, options: OperatorOptions): Readonly<Record<string, unknown>> {
  const values = Object.entries(OPTIONS[part]).map(([name, option]) => [name, options[option.attributeName()]] as const)
  return Object.fromEntries(values.filter(([, value]) => value !== undefined))
}

export function readBody(context: Pick<Context, 'env'>, options: OperatorOptions): object {
  return { ...readParts('body', options), ...readNote(context, options) }
}

export function readNote(
  { env }: Pick<Context, 'env'>,
  { actor, comment }: Pick<OperatorOptions, 'actor' | 'comment'>,
): { readonly actor: string; readonly comment?: string } {
  return { actor: actor ?? (env.USER || env.LOGNAME || readUserName()), ...(comment !== undefined && { comment }) }
}

/** @param pointer into a body @returns e.g. `--ip`; undefined if no single option sets it */
export function findOptionName(pointer: string): string | undefined {
  const [, part = 'body', name = ''] = /^#\/(?:(caller|target)\/)?(\w+)/.exec(pointer) ?? []
  const table = OPTIONS[part as keyof typeof OPTIONS]
  return Object.hasOwn(table, name) ? table[name]?.long : undefined
}

export function createPolicyOption(description: string): AnyOption {
  return createListOption('-p, --policy <name>', description, anyText())
}

function readEntries(schema: unknown): Readonly<Record<string, unknown>> {
  return (schema as { readonly entries?: Readonly<Record<string, unknown>> } | undefined)?.entries ?? {}
}

/** An account may have no name. */
function readUserName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}

function readOneClaim(text: string, before?: unknown): readonly (readonly [name: string, value: unknown])[] {
  if (before) throw new CommandError('--claim: expected one claim')
  const { name, value } = readClaim(text)
  return [[name, value]]
}

const DEFAULT_POLICY = 'default'

/** Reads `name=limits`, or limits of RATE_LIMITS, which are parsed with the policies later. @throws {CommandError} */
function collectLimits(text: string, before: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  const [, name = DEFAULT_POLICY, limits = ''] = /^\s*(?:([\w-]{1,64})\s*=)?\s*([^=]+?)\s*$/.exec(text) ?? []
  if (limits === '') throw new CommandError('--limits: expected limits such as 50/1s, or login=20/1m for a policy')
  if (Object.hasOwn(before, name)) throw new CommandError(`--limits: expected limits of ${name} once`)
  return { ...before, [name]: limits }
}
