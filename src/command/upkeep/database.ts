import { isUtf8 } from 'node:buffer'
import { KEY_LOCKING, SHEBANG_UNKNOWN } from '../../store/redis/redis-calls.ts'
import { CommandError } from '../command-error.ts'
import { CLUSTER_IS_NOT_SUPPORTED, type Connection, DatabaseError } from '../redis/connection.ts'
import { LUA } from './lua.ts'

/** A name that is not UTF-8 stays bytes, if the connection can carry them. */
export type KeyName = string | Buffer

export type Page = Awaited<ReturnType<Database['scan']>>

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

  /** @param ttlMs left out, the script writes nothing; the server enforces that if it can */
  async runByTtl(keys: readonly KeyName[], budgetUs: number, ttlMs?: number): Promise<BatchResult> {
    const command = ttlMs === undefined ? this.#readOnlyEval : 'EVAL'
    const firstLine = this.#firstLine
    const args = [`${budgetUs}`, ...(ttlMs === undefined ? [] : [`${ttlMs}`])]
    try {
      const call = [command, firstLine + LUA['by-ttl'].lua, `${keys.length}`, ...keys, ...args]
      return toResult((await this.#connection.send(call)) as number[])
    } catch (error) {
      if (firstLine !== '' && SHEBANG_UNKNOWN.test(readWords(error))) this.#firstLine = ''
      else if (command !== 'EVAL' && isUnavailable(error)) this.#readOnlyEval = 'EVAL'
      else throw error
      return this.runByTtl(keys, budgetUs, ttlMs)
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
  return error instanceof DatabaseError ? error.words : ''
}

/** An idempotent change of keys. */
export interface Job {
  readonly name: string
  /** @param budgetUs script time after which no more keys are begun @returns counts of the keys dealt with */
  apply(database: Database, keys: readonly KeyName[], budgetUs: number): Promise<BatchResult>
}

type BatchResult = ReturnType<typeof toResult>

/**
 * @param changed a count has here what would be changed
 * @param kept keys with a time to live, and the rules and audit logs of Sluice
 * @param us script time by the server's clock; 0 if that stands still in scripts
 */
function toResult([changed = 0, kept = 0, gone = 0, us = 0]: readonly number[]) {
  return { changed, kept, gone, us: us > 0 ? us : undefined }
}

export function expire(ttlMs: number): Job {
  return {
    name: `expire ${ttlMs}`,
    apply: (database, keys, budgetUs) => database.runByTtl(keys, budgetUs, ttlMs),
  }
}

export const countBare: Job = {
  name: 'count',
  apply: (database, keys, budgetUs) => database.runByTtl(keys, budgetUs),
}

/** UNLINK takes a whole batch, and Upstash charges for one command. */
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
