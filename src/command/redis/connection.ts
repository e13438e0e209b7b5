import type { RedisClient } from '../../store/redis/client.ts'
import { CommandError } from '../command-error.ts'
import type { Settings } from '../settings/settings.ts'
import { connectOverRedis } from './over-redis.ts'
import { connectOverRest } from './over-rest.ts'

/** A connection to the database. */
export interface Connection {
  /** For `RedisStore`. */
  readonly client: RedisClient
  readonly kind: 'rest' | 'redis'
  /** Host and port, to be shown. */
  readonly name: string
  /** What the server's errors may repeat, and no message may hold. */
  readonly secrets: readonly string[]
  close(): Promise<void>
}

/** A call that takes longer than this has failed. */
export const CALL_TIMEOUT_MS = 10_000

const NO_DATABASE_HINT =
  'Set UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN in the shell or in .dev.vars, or name a database by REDIS_URL or --redis: `npm run dev` prints its own. Without Redis, ask the Worker itself: --gateway, or the dashboard (docs/admin.md).'

/**
 * Connects to the database that `--redis` names, else to the Worker's, else to the one of REDIS_URL.
 * @throws {CommandError} if none is named, or it cannot be reached
 */
export async function connect(
  settings: Settings,
  env: Readonly<Record<string, string | undefined>>,
  redis?: string,
): Promise<Connection> {
  const { url, token } = namedDatabase(settings, env, redis)
  return token === undefined ? connectOverRedis(url) : connectOverRest(url, token)
}

/** A database, named but not yet reached. */
export interface NamedDatabase {
  readonly url: URL
  /** Of its REST interface; undefined: the URL is one of `redis://` or `rediss://`. */
  readonly token: string | undefined
}

/**
 * The database that `--redis` names, else the Worker's, else the one of REDIS_URL.
 * @throws {CommandError} if none is named
 */
export function namedDatabase(
  { variables, devVars }: Settings,
  env: Readonly<Record<string, string | undefined>>,
  redis?: string,
): NamedDatabase {
  const token = asText(variables.UPSTASH_REDIS_REST_TOKEN)
  const named = redis ?? asText(variables.UPSTASH_REDIS_REST_URL) ?? (env.REDIS_URL || devVars?.values.REDIS_URL)
  if (redis === undefined && variables.STORE === 'durable-object') {
    throw new CommandError('counts and rules are kept in Durable Objects (STORE), which only the Worker can reach', {
      hint: 'Ask it: --gateway https://…, or the dashboard (docs/admin.md). Name a database by --redis if one is meant all the same.',
    })
  }
  if (!named) throw new CommandError('no database is named', { hint: NO_DATABASE_HINT })
  const url = URL.canParse(named) ? new URL(named) : undefined
  switch (url?.protocol) {
    case 'redis:':
    case 'rediss:':
      return { url, token: undefined }
    case 'http:':
    case 'https:':
      if (token === undefined) {
        throw new CommandError('UPSTASH_REDIS_REST_TOKEN is not set', {
          hint: 'It is the REST token of the database at Upstash.',
        })
      }
      return { url, token }
    default:
      throw new CommandError('the URL of the database is none that is known', {
        hint: 'redis://[[user]:password@]host[:port][/number], rediss://… with TLS, or the https:// URL of Upstash’s REST interface.',
      })
  }
}

function asText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
