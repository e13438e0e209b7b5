/** Connects to Redis as a configuration says: over REST, over TCP, or to a cluster. */
import { Redis } from '@upstash/redis'
import { type Shard, StoreError } from '../../core/model/store.ts'
import { sleep } from '../../core/runtime/sleep.ts'
import { adaptUpstash, type RedisClient, readUpstashWords, UPSTASH_OPTIONS } from '../../core/store/redis/client.ts'
import { adaptNodeRedis, type NodeRedis } from '../../core/store/redis/tcp-clients.ts'
import { readShards } from '../../http/config/shards.ts'
import { findStoreKind } from '../../http/config/store-kinds.ts'
import { REST_URL } from '../../http/config/values.ts'
import { CommandError, findCause } from '../command-error.ts'
import type { Settings } from '../settings/settings.ts'
import { parseSentinelUrl, type SentinelUrl } from './sentinel-url.ts'

export interface Connection {
  readonly client: RedisClient
  readonly kind: 'rest' | 'redis'
  readonly name: string
  /** If it is one of several. */
  readonly shard?: Shard
  /** URL without scheme and credentials; it differs for each database of a server. */
  readonly database: string
  /** The server's errors may repeat them, so they are removed from messages. */
  readonly secrets: readonly string[]
  /** Features that the server turned out to lack: EVAL_RO (Redis before 7.0), a first line of flags in scripts (all but Upstash). */
  readonly lacks: Set<'EVAL_RO' | 'flags'>
  /** Returns strings as bytes over `redis://`. Calls may be repeated. @throws {DatabaseError} */
  send(command: readonly (string | Buffer)[]): Promise<unknown>
  close(): Promise<void>
}

/** The message holds no key, no credential and no whole command. */
export class DatabaseError extends StoreError {
  /** Empty if the server gave no answer. */
  readonly words: string

  constructor(message: string, words: string) {
    super(message)
    this.words = words
  }
}

export const CLUSTER_IS_NOT_SUPPORTED =
  'this server is a node of a Redis Cluster, which is not supported: SCAN sees the keys of one node only'

export const CALL_TIMEOUT_MS = 10_000
/** A server that forks or runs a long script is silent; a sweep or a watch of keys is patient with it. */
export const PATIENT_SILENCE_MS = 30_000
const RECONNECT_EVERY_MS = 250

const NO_DATABASE_HINT =
  'Set UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN, or REDIS_SHARDS, in the shell or in .dev.vars, or name a database by REDIS_URL or --redis: `npm run dev` prints its own. Without Redis, ask the Worker itself: --gateway, or the dashboard (docs/admin.md); sluice serve counts in memory with STORE=memory.'

/** Errors of a server that is starting, failing over or busy with a script. */
export const PASSING = /^(LOADING|BUSY|MASTERDOWN|TRYAGAIN|CLUSTERDOWN|ERR no answer from Redis)\b/

const UNAUTHORIZED =
  /^(?:WRONGPASS|NOAUTH|ERR Client sent AUTH|ERR invalid password|ERR Protocol error: unauthenticated|Unauthorized)/i

interface Patience {
  /** A connection that is silent for so long is made anew. */
  readonly silenceMs: number
  /** Is told why the database cannot be reached yet, which is then no error: the connection goes on trying. */
  readonly onAway?: (reason: string) => void
}

/** @returns a connection to the database, or to each of several @throws {OptionError} for a wrong REDIS_SHARDS */
export async function connect(
  settings: Settings,
  env: Readonly<Record<string, string | undefined>>,
  redis?: string,
  patience: Patience = { silenceMs: CALL_TIMEOUT_MS },
): Promise<readonly Connection[]> {
  const kind = findStoreKind(settings.variables.STORE)
  if (redis === undefined && kind && kind.inCommand === undefined) {
    const hint = 'Ask it: --gateway https://…, or the dashboard (docs/admin.md). --redis names a database all the same.'
    throw new CommandError(`counts are in ${kind.label}; use --gateway`, { hint })
  }
  const shards = redis === undefined ? readShards(settings.variables) : undefined
  if (!shards) return [await connectToOne(settings, env, redis, patience)]
  return Promise.all(
    shards.map(async ({ url, token, ...shard }) => ({
      ...(await connectOverRest(new URL(url), token, patience)),
      shard,
    })),
  )
}

async function connectToOne(
  { variables, devVars }: Settings,
  env: Readonly<Record<string, string | undefined>>,
  redis: string | undefined,
  patience: Patience,
): Promise<Connection> {
  const token = readText(variables.UPSTASH_REDIS_REST_TOKEN)
  const text = redis ?? readText(variables.UPSTASH_REDIS_REST_URL) ?? (env.REDIS_URL || devVars?.values.REDIS_URL)
  if (!text) throw new CommandError('no database is named', { hint: NO_DATABASE_HINT })
  const sentinelUrl = parseSentinelUrl(text)
  if (sentinelUrl) return connectOverSentinels(sentinelUrl, patience)
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url && isRedisUrl(url)) return connectOverRedis(url, patience)
  if (!url || REST_URL.parse(text, '') === undefined) {
    const hint =
      'redis://[[user]:password@]host[:port][/number], redis+sentinel://[[user]:password@]host[:port],…/master[/number], rediss… with TLS, or the https:// URL of Upstash’s REST interface.'
    throw new CommandError('the URL of the database has an unknown form', { hint })
  }
  if (token !== undefined) return connectOverRest(url, token, patience)
  const hint = 'It is the REST token of the database at Upstash.'
  throw new CommandError('UPSTASH_REDIS_REST_TOKEN is not set', { hint })
}

function isRedisUrl({ protocol, pathname, username, password }: URL): boolean {
  try {
    // The client decodes them.
    decodeURIComponent(username + password)
  } catch {
    return false
  }
  return /^rediss?:$/.test(protocol) && /^\/?\d*$/.test(pathname)
}

async function connectOverRedis(url: URL, { silenceMs, onAway }: Patience): Promise<Connection> {
  const { createClient } = await import('@redis/client')
  let isRetried = onAway !== undefined
  // Who asks once takes a server that is missing at the start for a mistake; later, it may come back.
  const options = createTcpOptions(silenceMs, () => isRetried && RECONNECT_EVERY_MS)
  const client = createClient({ url: url.href, ...options })
  // Without credentials, a server refuses only what comes after the connection.
  const connecting = client.connect().then(() => client.ping())
  const failing = new Promise<never>((_, reject) => client.once('error', reject))
  for (const unawaited of [connecting, failing]) unawaited.catch(() => {})
  const tcp: TcpConnection = {
    client,
    connecting: onAway ? Promise.race([connecting, failing]) : connecting,
    sendCommand: (command, typed) => client.sendCommand(command, typed),
    name: `${url.hostname}:${url.port || 6379}`,
    database: formatDatabaseName(url),
    secrets: [url.password, decodeURIComponent(url.password)].filter((text) => text !== ''),
    close: async () => client.destroy(),
  }
  const connection = await openTcp(tcp, onAway)
  isRetried = true
  return connection
}

async function connectOverSentinels(url: SentinelUrl, { silenceMs, onAway }: Patience): Promise<Connection> {
  const { createSentinel } = await import('@redis/client')
  const { sentinels, master, database, isSecure, credentials, sentinelCredentials } = url
  const { socket, ...options } = createTcpOptions(silenceMs, () => RECONNECT_EVERY_MS)
  const nodeOptions = { ...options, socket: isSecure ? { ...socket, tls: true as const } : socket }
  const client = createSentinel({
    name: master,
    sentinelRootNodes: [...sentinels],
    // Each call looks for the master by itself if there is none, rather than for so many seconds at the start.
    maxCommandRediscovers: 0,
    nodeClientOptions: { ...nodeOptions, ...credentials, database },
    sentinelClientOptions: { ...nodeOptions, ...sentinelCredentials },
  })
  let cause: unknown
  client.on('error', (error) => {
    cause = error
  })
  const tryToConnect = async () => {
    // That none of the sentinels is available does not say why.
    await client.connect().catch((error: unknown) => Promise.reject(cause ?? error))
    await client.ping()
  }
  let isClosed = false
  const keepTrying = async () => {
    while (!isClosed && !client.isOpen) {
      await sleep(RECONNECT_EVERY_MS)
      await tryToConnect().catch(() => {})
    }
  }
  const addresses = sentinels.map(({ host, port }) => `${host}:${port}`).join()
  const tcp: TcpConnection = {
    client,
    connecting: tryToConnect(),
    sendCommand: (command, typed) => client.sendCommand(false, command, typed),
    name: `${master} of ${addresses}`,
    database: `${addresses}/${master}/${database}`,
    secrets: [credentials.password, sentinelCredentials.password].filter((text) => text !== undefined),
    async close() {
      isClosed = true
      await client.destroy()
    },
  }
  const connection = await openTcp(tcp, onAway)
  void keepTrying()
  return connection
}

function createTcpOptions(silenceMs: number, reconnectStrategy: () => number | false) {
  return {
    RESP: 2 as const,
    socket: { connectTimeout: CALL_TIMEOUT_MS, socketTimeout: silenceMs, reconnectStrategy },
    // A connection without calls would be silent as well.
    pingInterval: silenceMs / 3,
    // Callers repeat failed calls.
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled' as const,
    commandOptions: { timeout: 0 },
  }
}

interface TcpConnection extends Pick<Connection, 'name' | 'database' | 'secrets' | 'close'> {
  readonly client: NodeRedis
  /** The first attempt to connect. */
  readonly connecting: Promise<unknown>
  sendCommand(command: (string | Buffer)[], typed: object): Promise<unknown>
}

async function openTcp(tcp: TcpConnection, onAway: Patience['onAway']): Promise<Connection> {
  const { ErrorReply, RESP_TYPES } = await import('@redis/client')
  const { client, connecting, sendCommand, ...connection } = tcp
  const { name, secrets, close } = connection
  // An 'error' event without a listener would end the process; the failed calls are reported anyway.
  client.on?.('error', () => {})
  await connecting.catch(async (error: unknown) => {
    const words = error instanceof ErrorReply ? error.message : ''
    const reason = words || `Redis at ${name} cannot be reached (${findCause(error)})`
    if (onAway && (words === '' || PASSING.test(words))) return onAway(reason)
    await close()
    if (words !== '') throw createServerError(words, secrets)
    const hint = 'Is it running, and is the URL right? With TLS, it begins with rediss, else with redis.'
    throw new CommandError(reason, { exit: 'redis', hint })
  })
  const asBytes = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } }
  return {
    ...connection,
    client: adaptNodeRedis(client),
    kind: 'redis',
    lacks: new Set(),
    async send(command) {
      return sendCommand([...command], asBytes).catch((error: unknown) => {
        const words = error instanceof ErrorReply ? error.message : ''
        throw createDatabaseError(words, secrets, 'the connection to Redis was lost')
      })
    },
  }
}

async function connectOverRest(url: URL, token: string, { silenceMs, onAway }: Patience): Promise<Connection> {
  const { host } = url
  const secrets = [token]
  const signal = () => AbortSignal.timeout(silenceMs)
  const redis = new Redis({ url: url.href.replace(/\/+$/, ''), token, ...UPSTASH_OPTIONS, signal })
  // Reports a wrong URL or token at once.
  const reply = await redis.exec(['PING']).catch((error: unknown) => {
    const words = readUpstashWords(error)
    if (words) throw createServerError(words, secrets)
    const reason = `the database at ${host} cannot be reached (${findCause(error)})`
    if (onAway) return onAway(reason)
    const hint = 'Is it the REST URL of the database, and the database on?'
    throw new CommandError(reason, { exit: 'redis', hint })
  })
  if (reply !== undefined && reply !== 'PONG')
    throw new CommandError(`${host} gave no reply of Redis`, { exit: 'redis' })
  return {
    client: adaptUpstash(redis),
    kind: 'rest',
    name: host,
    database: formatDatabaseName(url),
    secrets,
    lacks: new Set(),
    async send([command = '', ...args]) {
      return redis.exec([`${command}`, ...args.map(String)]).catch((error: unknown) => {
        const away = 'Upstash could not be reached, or its answer could not be read'
        throw createDatabaseError(readUpstashWords(error) ?? '', secrets, away)
      })
    },
    async close() {},
  }
}

/** @param words of the server @param away the message if there are none */
function createDatabaseError(words: string, secrets: readonly string[], away: string): DatabaseError {
  if (words === '') return new DatabaseError(away, words)
  const isFromCluster = /^(CROSSSLOT|MOVED|ASK)\b/.test(words)
  return new DatabaseError(isFromCluster ? CLUSTER_IS_NOT_SUPPORTED : quote(words, secrets), words)
}

function createServerError(words: string, secrets: readonly string[]): CommandError {
  const hint = 'User, password or token are not those of this database.'
  return new CommandError(quote(words, secrets), { exit: 'redis', ...(UNAUTHORIZED.test(words) && { hint }) })
}

function quote(words: string, secrets: readonly string[]): string {
  return `Redis answered an error: ${secrets.reduce((text, secret) => text.replaceAll(secret, '…'), words).slice(0, 200)}`
}

function formatDatabaseName({ host, pathname }: URL): string {
  return host + pathname.replace(/\/+$/, '')
}

function readText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
