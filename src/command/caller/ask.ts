import { type Config, type Environment, loadConfig } from '../../config/load-config.ts'
import { type Caller, type Pairs, requestOf } from '../../request/caller/caller.ts'
import { withKnownKeys } from '../check/known-elsewhere.ts'
import { CommandError } from '../command-error.ts'
import type { Settings } from '../settings/settings.ts'
import type { Terminal } from '../terminal.ts'

/** What the options of a subcommand say of a caller. */
export interface CallerOptions extends Omit<Caller, 'token'> {
  readonly digest?: string | undefined
}

/** The Worker's configuration, for which it makes no difference where API and database are. @throws {ConfigError} */
export function configOf(settings: Settings): Config {
  return loadConfig(environmentOf(settings))
}

/** What it is read from. */
export function environmentOf({ variables }: Settings): Environment {
  const {
    UPSTREAM_URL: _,
    STORE: _store,
    STORE_SHADOW: _shadow,
    UPSTASH_REDIS_REST_URL: _url,
    UPSTASH_REDIS_REST_TOKEN: _token,
    ...others
  } = variables
  // An upstream that is wrong keeps nobody from looking at counters; and with --redis, a token may stand alone.
  return { ...withKnownKeys(others), UPSTREAM: { fetch() {} } }
}

/** A caller, as the body of an operation has it. @throws {CommandError} if they tell nothing, or too much @throws {CallerError} */
export async function readCaller(
  terminal: Terminal,
  token: string | undefined,
  { digest, ip, header, query, form, claim, route }: CallerOptions,
): Promise<object> {
  // A token that is read need not stand in the history of a shell.
  const given = token === '-' ? await terminal.readInput() : token
  const caller: Caller = { token: given, ip, header, query, form, claim, route }
  const known = Object.values(caller).filter((value) => value !== undefined)
  if (digest !== undefined) {
    if (known.length > 0)
      throw new CommandError('expected --digest alone: it takes the place of all that identifies a caller')
    return { digest }
  }
  if (known.length === 0) {
    throw new CommandError('expected a caller', {
      hint: 'A token, --ip, --header, --query, --form, --claim, --route or --digest.',
    })
  }
  // Told before anybody is asked.
  requestOf(caller)
  return {
    ...caller,
    header: fieldsOf('header', header),
    query: fieldsOf('query', query),
    form: fieldsOf('form', form),
  }
}

/** @throws {CommandError} */
function fieldsOf(option: string, pairs: Pairs | undefined): Readonly<Record<string, string>> | undefined {
  if (new Set(pairs?.map(([name]) => name)).size === (pairs?.length ?? 0)) return pairs && Object.fromEntries(pairs)
  throw new CommandError(`--${option}: expected each name once`)
}

/** Why a policy was left out, and which option would help. */
export function whyLeftOut({ why, needs }: { readonly why: string; readonly needs: string | null }): string {
  return needs === null ? why : `${why}: name it with --${needs}`
}

/** What may make digests others than the Worker's. */
export function digestNote({ variables }: Settings): string | undefined {
  return variables.IDENTITY_SECRET === undefined
    ? 'note: IDENTITY_SECRET is not known here: if the Worker has one, these are not its keys'
    : undefined
}
