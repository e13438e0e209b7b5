import { isUtf8 } from 'node:buffer'
import { createClient, ErrorReply, RESP_TYPES } from '@redis/client'
import {
  type Database,
  DatabaseError,
  isUnavailable,
  type KeyName,
  type Page,
  parseInfo,
  type SlowCommand,
  serverError,
} from './database.ts'
import type { Script } from './scripts.ts'

const RECONNECT_EVERY_MS = 250
/** A server that says nothing for so long is given up, and connected to anew. */
const SILENCE_MS = 30_000
/** By which the server's slow log tells our commands from others. */
const CLIENT_NAME = 'sluice-upkeep'
const SLOW_COMMANDS = 32

type Argument = string | Buffer

/**
 * A database over `redis://` or `rediss://`. Scripts have a connection of their own: answers to everything else then do
 * not wait behind those that are under way, and tell how long the server lets anybody wait.
 * @throws DatabaseError if it cannot be reached
 */
export async function openRedisDatabase(url: string): Promise<Database> {
  const client = await connect(url)
  try {
    return new RedisDatabase(client, await connect(url))
  } catch (error) {
    client.destroy()
    throw error
  }
}

type Client = Awaited<ReturnType<typeof connect>>

async function connect(url: string) {
  let wasConnected = false
  const client = createClient({
    url,
    RESP: 2,
    name: CLIENT_NAME,
    socket: {
      socketTimeout: SILENCE_MS,
      // A server that is not there at the start is a mistake; later, it comes back.
      reconnectStrategy: (_retries, cause) => (wasConnected ? RECONNECT_EVERY_MS : cause),
    },
    // Calls are repeated by those who make them, after they have looked which server answers.
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    commandOptions: { timeout: 0, typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
  })
  // Calls that fail say so themselves; an 'error' event without a listener would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
  } catch (error) {
    if (error instanceof ErrorReply) throw serverError(error.message)
    const { hostname, port } = new URL(url)
    const reason = (error as NodeJS.ErrnoException).code ?? (error as Error).message
    throw new DatabaseError(`no Redis at ${hostname}:${port || 6379} (${reason})`, false)
  }
  wasConnected = true
  return client
}

class RedisDatabase implements Database {
  readonly inFlight = 4
  readonly #client: Client
  readonly #scripts: Client
  /** Until the server says that it does not know them: those before 7.0. */
  #hasReadOnlyScripts = true

  constructor(client: Client, scripts: Client) {
    this.#client = client
    this.#scripts = scripts
  }

  async scan(cursor: string, match: string, count: number): Promise<Page> {
    const [next, keys] = (await call(this.#client, ['SCAN', cursor, 'MATCH', match, 'COUNT', `${count}`])) as [
      Buffer,
      Buffer[],
    ]
    // Sent back as text, a name costs half the processor time that its bytes do.
    const names = keys.map((key) => (isUtf8(key) ? key.toString() : key))
    return { cursor: next.toString(), keys: names, unnameable: 0 }
  }

  async run(script: Script, keys: readonly KeyName[], args: readonly number[]): Promise<readonly number[]> {
    const { text, sha1 } = script.plain
    const rest = [`${keys.length}`, ...keys, ...args.map(String)]
    const suffix = script.isReadOnly && this.#hasReadOnlyScripts ? '_RO' : ''
    try {
      return (await send(this.#scripts, [`EVALSHA${suffix}`, sha1, ...rest])) as number[]
    } catch (error) {
      const words = wordsOf(error)
      if (suffix !== '' && isUnavailable(words)) {
        this.#hasReadOnlyScripts = false
        return this.run(script, keys, args)
      }
      if (!words.startsWith('NOSCRIPT')) throw toDatabaseError(error)
    }
    return (await call(this.#scripts, [`EVAL${suffix}`, text, ...rest])) as number[]
  }

  async unlink(keys: readonly KeyName[]): Promise<number> {
    return (await call(this.#scripts, ['UNLINK', ...keys])) as number
  }

  async ping(): Promise<void> {
    await call(this.#client, ['PING'])
  }

  async size(): Promise<number> {
    return (await call(this.#client, ['DBSIZE'])) as number
  }

  async info(section: string): Promise<ReadonlyMap<string, string> | undefined> {
    const text = await this.#ifAvailable(['INFO', section])
    return text === undefined ? undefined : parseInfo(String(text))
  }

  async slowCommands(): Promise<readonly SlowCommand[] | undefined> {
    const rows = (await this.#ifAvailable(['SLOWLOG', 'GET', `${SLOW_COMMANDS}`])) as SlowLogRow[] | undefined
    return rows?.map(([id, , us, , , name]) => ({ id, us, isOurs: String(name) === CLIENT_NAME }))
  }

  async close(): Promise<void> {
    this.#client.destroy()
    this.#scripts.destroy()
  }

  async #ifAvailable(args: Argument[]): Promise<unknown> {
    try {
      return await send(this.#client, args)
    } catch (error) {
      if (isUnavailable(wordsOf(error))) return undefined
      throw toDatabaseError(error)
    }
  }
}

/** https://redis.io/docs/latest/commands/slowlog-get/ */
type SlowLogRow = [id: number, timeS: number, us: number, args: Buffer[], address: Buffer, name: Buffer]

function send(client: Client, args: Argument[]): Promise<unknown> {
  return client.sendCommand(args)
}

async function call(client: Client, args: Argument[]): Promise<unknown> {
  try {
    return await send(client, args)
  } catch (error) {
    throw toDatabaseError(error)
  }
}

/** What the server said, or nothing if it gave no answer. */
function wordsOf(error: unknown): string {
  return error instanceof ErrorReply ? error.message : ''
}

function toDatabaseError(error: unknown): DatabaseError {
  const words = wordsOf(error)
  return words === '' ? new DatabaseError('the connection to Redis was lost', true) : serverError(words)
}
