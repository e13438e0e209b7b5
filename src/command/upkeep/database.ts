import { isUtf8 } from 'node:buffer'
import { KEY_LOCKING, SHEBANG_UNKNOWN } from '../../store/redis/redis-calls.ts'
import { CommandError } from '../command-error.ts'
import { CLUSTER_IS_NOT_SUPPORTED, type Connection, DatabaseError } from '../redis/connection.ts'
import { LUA } from './lua.ts'

/** A name that is not UTF-8 stays bytes, if the connection can carry them. */
export type KeyName = string | Buffer

export type Page = Awaited<ReturnType<Database['scan']>>

/** A connection that is silent for so long is closed and opened again. */
export const SILENCE_MS = 30_000
/** JSON has this in place of bytes that are not UTF-8. A name with it, sent back, would be another key's. */
const REPLACED = '\ufffd'

/** The calls that upkeep makes. Each throws `StoreError`, and may be repeated after it. */
export class Database {
  readonly #connection: Connection
  /** Servers before 7.0 have no EVAL_RO. */
  #readOnlyEval = 'EVAL_RO'
  #firstLine = KEY_LOCKING

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** @returns `unnameable` counts matching keys whose names are not text, which this connection cannot send */
  async scan(cursor: string, match: string, count: number) {
    const reply = await this.#connection.send(['SCAN', cursor, 'MATCH', match, 'COUNT', `${count}`])
    const [next, found] = reply as [KeyName, KeyName[]]
    // Text costs half the processor time of bytes when it is sent back.
    const names = found.map((name) => (typeof name !== 'string' && isUtf8(name) ? name.toString() : name))
    const keys = this.#connection.kind === 'rest' ? names.filter((name) => !name.includes(REPLACED)) : names
    return { cursor: `${next}`, keys, unnameable: names.length - keys.length }
  }

  /** @param isReadOnly the script writes nothing; the server enforces that if it can */
  async evaluate(
    lua: string,
    keys: readonly KeyName[],
    args: readonly number[],
    isReadOnly = false,
  ): Promise<number[]> {
    const command = isReadOnly ? this.#readOnlyEval : 'EVAL'
    const firstLine = this.#firstLine
    try {
      const call = [command, firstLine + lua, `${keys.length}`, ...keys, ...args.map(String)]
      return (await this.#connection.send(call)) as number[]
    } catch (error) {
      if (firstLine !== '' && SHEBANG_UNKNOWN.test(readWords(error))) this.#firstLine = ''
      else if (command !== 'EVAL' && isUnavailable(error)) this.#readOnlyEval = 'EVAL'
      else throw error
      return this.evaluate(lua, keys, args, isReadOnly)
    }
  }

  /** @returns how many of them existed */
  async unlink(keys: readonly KeyName[]): Promise<number> {
    return (await this.#connection.send(['UNLINK', ...keys])) as number
  }

  async ping(): Promise<void> {
    await this.#connection.send(['PING'])
  }

  async countKeys(): Promise<number> {
    return (await this.#connection.send(['DBSIZE'])) as number
  }

  /** @returns a section of INFO; empty if the server does not offer it */
  async readInfo(section: string): Promise<ReadonlyMap<string, string>> {
    try {
      const text = `${await this.#connection.send(['INFO', section])}`
      return new Map([...text.matchAll(/^(\w+):(.*?)\r?$/gm)].map(([, name = '', value = '']) => [name, value]))
    } catch (error) {
      if (isUnavailable(error)) return new Map()
      throw error
    }
  }

  async refuseCluster(): Promise<void> {
    const isCluster = (await this.readInfo('cluster')).get('cluster_enabled') === '1'
    if (isCluster) throw new CommandError(CLUSTER_IS_NOT_SUPPORTED, { exit: 'redis' })
  }
}

/** The server has no such command, or this user may not run it. */
function isUnavailable(error: unknown): boolean {
  return /^(NOPERM|ERR unknown (sub)?command|ERR Command is not available)/i.test(readWords(error))
}

function readWords(error: unknown): string {
  return (error instanceof DatabaseError && error.words) || ''
}

/** An idempotent change of keys. */
export interface Job {
  readonly name: string
  /** @param budgetUs script time after which no more keys are begun @returns counts of the keys dealt with */
  apply(database: Database, keys: readonly KeyName[], budgetUs: number): Promise<BatchResult>
}

interface BatchResult {
  /** A count has here what would be changed. */
  readonly changed: number
  /** Keys with a time to live, and the rules and audit logs of Sluice. */
  readonly kept: number
  readonly gone: number
  /** Script time by the server's clock; undefined if that stands still in scripts. */
  readonly us: number | undefined
}

const BY_TTL = LUA['by-ttl'].lua

export function expire(ttlMs: number): Job {
  return {
    name: `expire ${ttlMs}`,
    apply: async (database, keys, budgetUs) => toResult(await database.evaluate(BY_TTL, keys, [budgetUs, ttlMs])),
  }
}

export const countBare: Job = {
  name: 'count',
  apply: async (database, keys, budgetUs) => toResult(await database.evaluate(BY_TTL, keys, [budgetUs], true)),
}

/** Removes keys. UNLINK takes a whole batch, and Upstash charges for one command. */
export const deleteKeys: Job = {
  name: 'delete',
  async apply(database, keys) {
    const changed = await database.unlink(keys)
    return toResult([changed, 0, keys.length - changed])
  },
}

export const countAll: Job = {
  name: 'count all',
  apply: async (_database, keys) => toResult([keys.length]),
}

function toResult([changed = 0, kept = 0, gone = 0, us = 0]: readonly number[]): BatchResult {
  return { changed, kept, gone, us: us > 0 ? us : undefined }
}
