import type { InferOutput } from 'valibot'
import type { leftOut } from '../../admin/caller-schema.ts'
import { type Config, type Environment, loadConfig } from '../../config/load-config.ts'
import { type Caller, type Pairs, requestOf } from '../../request/caller/caller.ts'
import { withKnownKeys } from '../check/known-elsewhere.ts'
import { CommandError } from '../command-error.ts'
import type { Settings } from '../settings/settings.ts'
import type { Terminal } from '../terminal.ts'
import { ALL_OPTIONS, type CallerOptions, OPTION_NAMES } from './options.ts'

type LeftOut = InferOutput<typeof leftOut>[number]

/** The Worker's configuration, for which it makes no difference where API and database are. @throws {OptionError} */
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
  { digest, ip, header, query, cookie, form, jsonMember: json, claim, route }: CallerOptions,
): Promise<object> {
  // A token that is read need not stand in the history of a shell.
  const given = token === '-' ? await terminal.readInput() : token
  const caller: Caller = { token: given, ip, header, query, cookie, form, json, claim, route }
  const known = Object.values(caller).filter((value) => value !== undefined)
  if (digest !== undefined) {
    if (known.length > 0)
      throw new CommandError('expected --digest alone: it takes the place of all that identifies a caller')
    return { digest }
  }
  if (known.length === 0) {
    throw new CommandError('expected a caller', {
      hint: `A token, ${ALL_OPTIONS}, --route or --digest.`,
    })
  }
  // Told before anybody is asked.
  requestOf(caller)
  return {
    ...caller,
    header: fieldsOf('header', header),
    query: fieldsOf('query', query),
    cookie: fieldsOf('cookie', cookie),
    form: fieldsOf('form', form),
    json: fieldsOf('json-member', json),
  }
}

/** @throws {CommandError} */
function fieldsOf(option: string, pairs: Pairs | undefined): Readonly<Record<string, string>> | undefined {
  if (new Set(pairs?.map(([name]) => name)).size === (pairs?.length ?? 0)) return pairs && Object.fromEntries(pairs)
  throw new CommandError(`--${option}: expected each name once`)
}

/** Why a policy was left out, and which option would help. */
export function whyLeftOut({ why, needs }: Pick<LeftOut, 'why' | 'needs'>): string {
  if (needs === null) return why
  const option = needs === 'route' ? needs : OPTION_NAMES[needs]
  return `${why}: name it ${option === undefined ? 'by its token' : `with --${option}`}`
}

/** What may make digests others than the Worker's. */
export function digestNote({ variables }: Settings): string | undefined {
  return variables.IDENTITY_SECRET === undefined
    ? 'note: IDENTITY_SECRET is not known here: if the Worker has one, these are not its keys'
    : undefined
}
