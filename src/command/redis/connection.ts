import { Redis } from '@upstash/redis'
import type { Config } from '../../config/load-config.ts'
import { StoreError } from '../../model/store.ts'
import type { RedisClient } from '../../store/redis/client.ts'
import { UPSTASH_OPTIONS, upstashClient, upstashWords } from '../../store/redis/client.ts'
import { LUA } from '../../store/redis/more-lua.ts'
import { RedisStore } from '../../store/redis/redis-store.ts'
import { nodeRedisClient } from '../../store/redis/tcp-clients.ts'
import { CommandError } from '../command-error.ts'
import type { Settings } from '../settings/settings.ts'

export interface Connection {
  readonly client: RedisClient
  readonly kind: 'rest' | 'redis'
  /** Host and port, for messages. */
  readonly name: string
  /** URL without scheme and credentials; it differs for each database of a server. */
  readonly database: string
  /** The server's errors may repeat them, so they are removed from messages. */
  readonly secrets: readonly string[]
  /** Returns strings as bytes over `redis://`. @throws {DatabaseError} */
  send(command: readonly (string | Buffer)[]): Promise<unknown>
  close(): Promise<void>
}

/** A failed command. The message holds no key, no credential and no whole command. */
export class DatabaseError extends StoreError {
  /** The server's message; undefined if it gave no answer. */
  readonly words: string | undefined
  readonly isPassing: boolean

  constructor(message: string, { words, isPassing = false }: { words?: string; isPassing?: boolean } = {}) {
    super(message)
    this.words = words
    this.isPassing = isPassing
  }
}

export const CLUSTER_IS_NOT_SUPPORTED =
  'this server is a node of a Redis Cluster, which is not supported: SCAN sees the keys of one node only'

export const CALL_TIMEOUT_MS = 10_000
const RECONNECT_EVERY_MS = 250

const NO_DATABASE_HINT =
  'Set UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN in the shell or in .dev.vars, or name a database by REDIS_URL or --redis: `npm run dev` prints its own. Without Redis, ask the Worker itself: --gateway, or the dashboard (docs/admin.md).'

/** Errors of a server that is starting, failing over or busy with a script. */
const PASSING = /^(LOADING|BUSY|MASTERDOWN|TRYAGAIN|CLUSTERDOWN|ERR no answer from Redis)\b/
const FROM_CLUSTER = /^(CROSSSLOT|MOVED|ASK)\b/

const HINTS: readonly (readonly [RegExp, string])[] = [
  [
    /^(?:WRONGPASS|NOAUTH|ERR Client sent AUTH|ERR invalid password|Unauthorized)/i,
    'User, password or token are not those of this database.',
  ],
  [/^NOPERM/, 'The user of this URL may not do that.'],
  [/^(?:OOM|READONLY|LOADING|BUSY|MISCONF)/, 'The server cannot do that now.'],
]

/**
 * Connects to the database of `--redis`, else of the Worker, else of REDIS_URL.
 * @param silenceMs closes and reopens a connection that is silent for so long, for runs that continue after an outage
 * @throws {CommandError} if none is named, or it cannot be reached
 */
export async function connect(
  { variables, devVars }: Settings,
  env: Readonly<Record<string, string | undefined>>,
  redis?: string,
  silenceMs?: number,
): Promise<Connection> {
  const token = asText(variables.UPSTASH_REDIS_REST_TOKEN)
  const text = redis ?? asText(variables.UPSTASH_REDIS_REST_URL) ?? (env.REDIS_URL || devVars?.values.REDIS_URL)
  if (redis === undefined && variables.STORE === 'durable-object') {
    throw new CommandError('counts and rules are kept in Durable Objects (STORE), which only the Worker can reach', {
      hint: 'Ask it: --gateway https://…, or the dashboard (docs/admin.md). Name a database by --redis if one is meant all the same.',
    })
  }
  if (!text) throw new CommandError('no database is named', { hint: NO_DATABASE_HINT })
  const url = URL.canParse(text) ? new URL(text) : undefined
  switch (url?.protocol) {
    case 'redis:':
    case 'rediss:':
      return connectOverRedis(url, silenceMs)
    case 'http:':
    case 'https:':
      if (token === undefined) {
        throw new CommandError('UPSTASH_REDIS_REST_TOKEN is not set', {
          hint: 'It is the REST token of the database at Upstash.',
        })
      }
      return connectOverRest(url, token, silenceMs)
    default:
      throw new CommandError('the URL of the database is none that is known', {
        hint: 'redis://[[user]:password@]host[:port][/number], rediss://… with TLS, or the https:// URL of Upstash’s REST interface.',
      })
  }
}

export function createStore({ client, secrets }: Pick<Connection, 'client' | 'secrets'>, config: Config): RedisStore {
  const algorithms = new Set(config.policies.map(({ algorithm }) => algorithm))
  return new RedisStore({ client, secrets, algorithms, moreLua: LUA, timeoutMs: CALL_TIMEOUT_MS })
}

async function connectOverRedis(url: URL, silenceMs?: number): Promise<Connection> {
  const { createClient, ErrorReply, RESP_TYPES } = await import('@redis/client')
  const name = `${url.hostname}:${url.port || 6379}`
  const secrets = [url.password, decodeURIComponent(url.password)].filter((text) => text !== '')
  let wasConnected = false
  const client = createClient({
    url: url.href,
    RESP: 2,
    socket: {
      connectTimeout: CALL_TIMEOUT_MS,
      ...(silenceMs !== undefined && { socketTimeout: silenceMs }),
      // A server that is missing at the start is a mistake; later, it may come back.
      reconnectStrategy: () => wasConnected && RECONNECT_EVERY_MS,
    },
    // Callers repeat failed calls.
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    commandOptions: { timeout: 0 },
  })
  // An 'error' event without a listener would end the process; the failed calls are reported anyway.
  client.on('error', () => {})
  await client.connect().catch((error: unknown) => {
    client.destroy()
    if (error instanceof ErrorReply) throw serverError(error.message, secrets)
    const { code, name: type } = error as NodeJS.ErrnoException
    throw new CommandError(`Redis at ${name} cannot be reached (${code ?? type})`, {
      exit: 'redis',
      hint: 'Is it running, and is the URL right?',
    })
  })
  wasConnected = true
  const asBytes = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } }
  return {
    client: nodeRedisClient(client),
    kind: 'redis',
    name,
    database: databaseName(url),
    secrets,
    async send(command) {
      return client.sendCommand(command, asBytes).catch((error: unknown) => {
        const words = error instanceof ErrorReply ? error.message : undefined
        throw databaseError(words, secrets, 'the connection to Redis was lost')
      })
    },
    async close() {
      client.destroy()
    },
  }
}

async function connectOverRest(url: URL, token: string, silenceMs = CALL_TIMEOUT_MS): Promise<Connection> {
  const base = url.href.replace(/\/+$/, '')
  const secrets = [token]
  const redis = new Redis({ url: base, token, ...UPSTASH_OPTIONS, signal: () => AbortSignal.timeout(silenceMs) })
  // Reports a wrong URL or token at once.
  await ping(url.host, base, token)
  return {
    client: upstashClient(redis),
    kind: 'rest',
    name: url.host,
    database: databaseName(url),
    secrets,
    async send([command = '', ...args]) {
      return redis.exec([`${command}`, ...args.map(String)]).catch((error: unknown) => {
        const away = 'Upstash could not be reached, or its answer could not be read'
        throw databaseError(upstashWords(error) || undefined, secrets, away)
      })
    },
    async close() {},
  }
}

async function ping(host: string, base: string, token: string): Promise<void> {
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }
  const signal = AbortSignal.timeout(CALL_TIMEOUT_MS)
  const { status, reply } = await fetch(base, { method: 'POST', headers, body: '["PING"]', signal })
    .then(async (response) => ({
      status: response.status,
      reply: await response.json<{ result?: unknown; error?: string }>(),
    }))
    .catch(({ name, cause }: Error) => {
      const { code = 'no JSON' } = (cause ?? {}) as { code?: string }
      const reason = name === 'TimeoutError' ? 'no answer in time' : code
      throw new CommandError(`the database at ${host} cannot be reached (${reason})`, {
        exit: 'redis',
        hint: 'Is it the REST URL of the database, and the database on?',
      })
    })
  if (reply.error !== undefined) throw serverError(reply.error, [token])
  if (status !== 200 || !('result' in reply)) {
    throw new CommandError(`${host} answered ${status}, and no reply of Redis`, { exit: 'redis' })
  }
}

/** @param words of the server @param away the message if there are none */
function databaseError(words: string | undefined, secrets: readonly string[], away: string): DatabaseError {
  if (words === undefined) return new DatabaseError(away, { isPassing: true })
  if (FROM_CLUSTER.test(words)) return new DatabaseError(CLUSTER_IS_NOT_SUPPORTED, { words })
  return new DatabaseError(quote(words, secrets), { words, isPassing: PASSING.test(words) })
}

function serverError(words: string, secrets: readonly string[]): CommandError {
  const hint = HINTS.find(([pattern]) => pattern.test(words))?.[1]
  return new CommandError(quote(words, secrets), { exit: 'redis', ...(hint !== undefined && { hint }) })
}

function quote(words: string, secrets: readonly string[]): string {
  return `Redis answered an error: ${secrets.reduce((text, secret) => text.replaceAll(secret, '…'), words).slice(0, 200)}`
}

function databaseName({ host, pathname }: URL): string {
  return host + pathname.replace(/\/+$/, '')
}

function asText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
