/** Arguments and options that tell who a caller is. */
import { Argument, type Command, Option } from '@commander-js/extra-typings'
import type { Caller, Pairs } from '../../request/caller/caller.ts'
import { collectClaims, readPair } from '../../request/caller/caller-in-text.ts'
import { CALLER_KIND_NAMES, type CallerKind } from '../../request/identity/source.ts'

export const TOKEN = new Argument(
  '[token]',
  'what the caller sends as Authorization, with or without its scheme; - reads it from standard input',
)
export const IP = new Option('--ip <address>', 'address of the caller')
export const HEADER = new Option('-H, --header <name=value>', 'a field that the caller sends').argParser(collectPairs)
export const QUERY = new Option('--query <name=value>', 'a parameter of the query').argParser(collectPairs)
export const COOKIE = new Option('--cookie <name=value>', 'a cookie of the caller').argParser(collectPairs)
export const FORM = new Option('--form <name=value>', 'a field of an urlencoded form').argParser(collectPairs)
/** Not `--json`, which says how results are printed. */
export const JSON_MEMBER = new Option(
  '--json-member </pointer=value>',
  'a member of a JSON body, such as /user/id=42',
).argParser(collectPairs)
export const CLAIM = new Option(
  '--claim <name=value>',
  'what the token of the caller says, e.g. sub=alice, id:=42, /account/plan=pro; the token itself is not verified here',
).argParser(collectClaims)
const ROUTE = new Option('--route <request>', 'such as "POST /login": only what applies to it')
export const DIGEST = new Option(
  '--digest <digest>',
  'identity as keys and logs have it: 22 letters, in place of all others',
)

/** What names each of the options, after `--`; a token is an argument. */
export const OPTION_NAMES = {
  ...{ token: undefined, ip: 'ip', header: 'header', query: 'query', cookie: 'cookie', form: 'form' },
  ...{ json: 'json-member', claim: 'claim' },
} as const satisfies Readonly<Record<CallerKind, string | undefined>>

/** All of them, for messages. */
export const ALL_OPTIONS = CALLER_KIND_NAMES.flatMap((kind) => OPTION_NAMES[kind] ?? [])
  .map((name) => `--${name}`)
  .join(', ')

/** Adds all of them to a subcommand that is about one caller. */
export const ofCaller = (command: Command) =>
  command
    .addArgument(TOKEN)
    .addOption(IP)
    .addOption(HEADER)
    .addOption(QUERY)
    .addOption(COOKIE)
    .addOption(FORM)
    .addOption(JSON_MEMBER)
    .addOption(CLAIM)
    .addOption(ROUTE)
    .addOption(DIGEST)

/** What these options say, with one of them under another name. */
export interface CallerOptions extends Omit<Caller, 'token' | 'json'> {
  readonly jsonMember?: Pairs | undefined
  readonly digest?: string | undefined
}

function collectPairs(text: string, before: Pairs = []): Pairs {
  return [...before, readPair(text)]
}
