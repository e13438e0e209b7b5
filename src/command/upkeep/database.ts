import { isUtf8 } from 'node:buffer'
import type { RedisClient } from '../../store/redis/client.ts'
import { RedisCalls, type Script, toScript } from '../../store/redis/redis-calls.ts'
import { callChunk } from '../../store/redis/script.ts'
import { CLUSTER_IS_NOT_SUPPORTED, type Connection, DatabaseError } from '../redis/connection.ts'
import { LUA } from './lua.ts'

/** A key's name: text, or the bytes of a name that is none, where the connection can carry it. */
export type KeyName = string | Buffer

export interface Page {
  /** Where the next SCAN goes on; `0` at the end. */
  readonly cursor: string
  readonly keys: readonly KeyName[]
  /** Matching keys whose names are not text, and which this connection cannot name. */
  readonly unnameable: number
}

/** A server that says nothing for so long is given up, and connected to anew. */
export const SILENCE_MS = 30_000
/** What bytes that are no UTF-8 become in JSON. Sent back, such a name would be another key's. */
const REPLACED = '\ufffd'

/** A database, as the upkeep of its keys sees it. Whatever has failed may be called again. It throws `StoreError`. */
export class Database {
  /** Calls that may be under way at once. */
  readonly inFlight: number
  readonly #connection: Connection
  readonly #scripts: RedisCalls
  readonly #readOnlyScripts: RedisCalls
  /** Until the server says that it does not know them: those before 7.0. */
  #hasReadOnlyScripts = true

  constructor(connection: Connection) {
    this.#connection = connection
    this.inFlight = connection.kind === 'rest' ? 8 : 4
    this.#scripts = createCalls(connection, '')
    this.#readOnlyScripts = createCalls(connection, '_RO')
  }

  async scan(cursor: string, match: string, count: number): Promise<Page> {
    const reply = await this.#connection.send(['SCAN', cursor, 'MATCH', match, 'COUNT', `${count}`])
    const [next, found] = reply as [KeyName, KeyName[]]
    // Sent back as text, a name costs half the processor time that its bytes do.
    const names = found.map((name) => (typeof name !== 'string' && isUtf8(name) ? name.toString() : name))
    const keys = this.#connection.kind === 'rest' ? names.filter((name) => !name.includes(REPLACED)) : names
    return { cursor: `${next}`, keys, unnameable: names.length - keys.length }
  }

  /** @returns the script's numbers */
  async run(script: Script, keys: readonly KeyName[], args: number[]): Promise<readonly number[]> {
    // The client below takes bytes as well.
    return (await this.#scripts.evaluate(script, keys as string[], args)) as number[]
  }

  /** Runs a script that writes nothing; the server makes sure, if it can. */
  async runReadOnly(script: Script, keys: readonly KeyName[], args: number[]): Promise<readonly number[]> {
    if (!this.#hasReadOnlyScripts) return this.run(script, keys, args)
    try {
      return (await this.#readOnlyScripts.evaluate(script, keys as string[], args)) as number[]
    } catch (error) {
      if (!isUnavailable(error)) throw error
      this.#hasReadOnlyScripts = false
      return this.run(script, keys, args)
    }
  }

  /** Removes keys without waiting for their memory. @returns how many there were */
  async unlink(keys: readonly KeyName[]): Promise<number> {
    return (await this.#connection.send(['UNLINK', ...keys])) as number
  }

  async ping(): Promise<void> {
    await this.#connection.send(['PING'])
  }

  /** Counts all keys, whatever their names. */
  async size(): Promise<number> {
    return (await this.#connection.send(['DBSIZE'])) as number
  }

  /** Reads a section of INFO; empty where the server tells none. */
  async info(section: string): Promise<ReadonlyMap<string, string>> {
    try {
      const text = `${await this.#connection.send(['INFO', section])}`
      return new Map([...text.matchAll(/^(\w+):(.*?)\r?$/gm)].map(([, name = '', value = '']) => [name, value]))
    } catch (error) {
      if (isUnavailable(error)) return new Map()
      throw error
    }
  }

  async refuseCluster(): Promise<void> {
    if ((await this.info('cluster')).get('cluster_enabled') === '1') throw new DatabaseError(CLUSTER_IS_NOT_SUPPORTED)
  }
}

/** Sends scripts by commands of this ending. */
function createCalls({ client, send }: Connection, ending: '' | '_RO'): RedisCalls {
  const call = (command: string): RedisClient['eval'] => {
    return (script, keys, args) => send([command + ending, script, `${keys.length}`, ...keys, ...args.map(String)])
  }
  const serverWords = (error: unknown) => (error instanceof DatabaseError ? error.words : undefined)
  const scripts = { ...client, eval: call('EVAL'), evalsha: call('EVALSHA'), serverWords }
  return new RedisCalls({ client: scripts, timeoutMs: SILENCE_MS })
}

/** Whether the server has no such command, or this user may not run it. */
function isUnavailable(error: unknown): boolean {
  const words = error instanceof DatabaseError ? error.words : undefined
  return /^(NOPERM|ERR unknown (sub)?command|ERR Command is not available)/i.test(words ?? '')
}

/** What became of a batch of keys, the first ones of those given. */
export interface Done {
  /** Keys that were changed; of a count, those that would be. */
  readonly changed: number
  /** Keys that were left as they are: they have a time to live, or are rules or a history of Sluice. */
  readonly kept: number
  /** Keys that were no longer there. */
  readonly gone: number
  /** Time that the server took, by its own clock; undefined where it tells none. */
  readonly us: number | undefined
}

/** What is done with each key that matches. Done again, it does no harm. */
export interface Job {
  /** In the file that a later run goes on from. */
  readonly name: string
  /** @param budgetUs of the server, after which it begins no more keys */
  apply(database: Database, keys: readonly KeyName[], budgetUs: number): Promise<Done>
}

const BY_TTL = callChunk(LUA['by-ttl'].lua)
const EXPIRE = toScript(`return ${callChunk(LUA.expire.lua, [BY_TTL])}`)
const COUNT = toScript(`return ${callChunk(LUA.count.lua, [BY_TTL])}`)

/** Gives those keys `ttlMs` to live that have no time to live. */
export function expire(ttlMs: number): Job {
  return {
    name: `expire ${ttlMs}`,
    apply: async (database, keys, budgetUs) => toDone(await database.run(EXPIRE, keys, [budgetUs, ttlMs])),
  }
}

/** Counts those keys that have no time to live, and writes nothing. */
export const countBare: Job = {
  name: 'count',
  apply: async (database, keys, budgetUs) => toDone(await database.runReadOnly(COUNT, keys, [budgetUs])),
}

/** Removes keys. A command of Redis does this for a whole batch, and Upstash charges for one. */
export const forget: Job = {
  name: 'forget',
  async apply(database, keys) {
    const changed = await database.unlink(keys)
    return { changed, kept: 0, gone: keys.length - changed, us: undefined }
  },
}

/** Counts keys as they are found, and asks nothing more of them. */
export const countAll: Job = {
  name: 'count all',
  apply: async (_database, keys) => ({ changed: keys.length, kept: 0, gone: 0, us: undefined }),
}

function toDone([changed = 0, kept = 0, gone = 0, us = 0]: readonly number[]): Done {
  return { changed, kept, gone, us: us > 0 ? us : undefined }
}
