import { type Config, type Environment, loadConfig } from '../../config/load-config.ts'
import type { Caller } from '../../request/caller/caller.ts'
import { type CallerRules, type LeftOut, rulesOfCaller, rulesOfDigest } from '../../request/caller/rules-of-caller.ts'
import { LUA } from '../../store/redis/more-lua.ts'
import { RedisStore } from '../../store/redis/redis-store.ts'
import { withKnownKeys } from '../check/known-elsewhere.ts'
import { CommandError } from '../command-error.ts'
import { CALL_TIMEOUT_MS, type Connection } from '../redis/connection.ts'
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
    UPSTASH_REDIS_REST_URL: _url,
    UPSTASH_REDIS_REST_TOKEN: _token,
    ...others
  } = variables
  // An upstream that is wrong keeps nobody from looking at counters; and with --redis, a token may stand alone.
  return { ...withKnownKeys(others), UPSTREAM: { fetch() {} } }
}

/** A caller as it is known. */
export interface KnownCaller {
  /** Nothing, if there is a digest. */
  readonly caller: Caller
  readonly digest?: string
}

/** @throws {CommandError} if they tell nothing, or too much */
export async function knownCaller(
  terminal: Terminal,
  token: string | undefined,
  { digest, ip, header, query, form, claim, route }: CallerOptions,
): Promise<KnownCaller> {
  // A token that is read need not stand in the history of a shell.
  const given = token === '-' ? await terminal.readInput() : token
  const caller: Caller = { token: given, ip, header, query, form, claim, route }
  const known = Object.entries(caller).filter(([, value]) => value !== undefined)
  if (digest !== undefined) {
    if (known.length > 0)
      throw new CommandError('expected --digest alone: it takes the place of all that identifies a caller')
    return { caller: {}, digest }
  }
  if (known.length === 0) {
    throw new CommandError('expected a caller', {
      hint: 'A token, --ip, --header, --query, --form, --claim, --route or --digest.',
    })
  }
  return { caller }
}

/** Under which keys it is counted. @throws {CallerError} if there is no such caller */
export function rulesOf(config: Config, { caller, digest }: KnownCaller): Promise<CallerRules> {
  return digest === undefined ? rulesOfCaller(config, caller) : rulesOfDigest(config, digest)
}

/** Why a policy was left out, and which option would help. */
export function whyLeftOut({ why, needs }: LeftOut): string {
  return needs === undefined ? why : `${why}: name it with --${needs}`
}

export function storeOf({ client, secrets }: Connection, config: Config): RedisStore {
  const algorithms = new Set(config.policies.map(({ algorithm }) => algorithm))
  return new RedisStore({ client, secrets, algorithms, moreLua: LUA, timeoutMs: CALL_TIMEOUT_MS })
}

/** What may make digests others than the Worker's. */
export function digestNote({ variables }: Settings): string | undefined {
  return variables.IDENTITY_SECRET === undefined
    ? 'note: IDENTITY_SECRET is not known here: if the Worker has one, these are not its keys'
    : undefined
}
