/** Reads and changes the keys of a database for upkeep and `top`, whoever made them. */
import { isUtf8 } from 'node:buffer'
import { KEY_LOCKING, SHEBANG_UNKNOWN } from '../../core/store/redis/redis-calls.ts'
import { CommandError } from '../command-error.ts'
import { CLUSTER_IS_NOT_SUPPORTED, type Connection, DatabaseError } from '../redis/connection.ts'
import { LUA } from './lua.ts'

/** A name that is not UTF-8 stays bytes, if the connection can carry them. */
export type KeyName = string | Buffer

/** JSON has this in place of bytes that are not UTF-8. A name with it, sent back, would be another key's. */
const REPLACED = '\ufffd'

/** @returns `unnameable` counts matching keys whose names are not text, which this connection cannot send */
export async function scan({ send, kind }: Connection, cursor: string, match: string, count: number) {
  const [next, found] = (await send(['SCAN', cursor, 'MATCH', match, 'COUNT', `${count}`])) as [KeyName, KeyName[]]
  // Text costs half the processor time of bytes when it is sent back.
  const names = found.map((name) => (typeof name !== 'string' && isUtf8(name) ? name.toString() : name))
  const keys = kind === 'rest' ? names.filter((name) => !name.includes(REPLACED)) : names
  return { cursor: `${next}`, keys, unnameable: names.length - keys.length }
}

/**
 * Share of the key table that is passed at `cursor`, 0 to 1. SCAN counts from the highest bit of the cursor, so its bits,
 * read from the lowest, are the binary digits of this share, however large the table is or becomes.
 * https://github.com/redis/redis/blob/7.0/src/dict.c (dictScan)
 */
export function findShareOfTable(cursor: string): number {
  let bits = BigInt(cursor)
  let share = 0
  for (let weight = 0.5; bits > 0n; bits >>= 1n, weight /= 2) if (bits & 1n) share += weight
  return share
}

export async function countKeys({ send }: Connection): Promise<number> {
  return (await send(['DBSIZE'])) as number
}

/** @returns a section of INFO; empty if the server does not offer it */
export async function readInfo({ send }: Connection, section: string): Promise<ReadonlyMap<string, string>> {
  try {
    const text = `${await send(['INFO', section])}`
    return new Map([...text.matchAll(/^(\w+):(.*?)\r?$/gm)].map(([, name = '', value = '']) => [name, value]))
  } catch (error) {
    if (isUnavailable(error)) return new Map()
    throw error
  }
}

export async function refuseCluster(connection: Connection): Promise<void> {
  const isCluster = (await readInfo(connection, 'cluster')).get('cluster_enabled') === '1'
  if (isCluster) throw new CommandError(CLUSTER_IS_NOT_SUPPORTED, { exit: 'redis' })
}

/** @param ttlMs left out, the script writes nothing; the server enforces that if it can */
async function runByTtl(
  connection: Connection,
  keys: readonly KeyName[],
  budgetUs: number,
  ttlMs?: number,
): Promise<BatchResult> {
  const { send, lacks } = connection
  const command = ttlMs === undefined && !lacks.has('EVAL_RO') ? 'EVAL_RO' : 'EVAL'
  const firstLine = lacks.has('flags') ? '' : KEY_LOCKING
  const args = [`${budgetUs}`, ...(ttlMs === undefined ? [] : [`${ttlMs}`])]
  try {
    return toResult(
      (await send([command, firstLine + LUA['by-ttl'].lua, `${keys.length}`, ...keys, ...args])) as number[],
    )
  } catch (error) {
    if (firstLine !== '' && SHEBANG_UNKNOWN.test(readWords(error))) lacks.add('flags')
    else if (command !== 'EVAL' && isUnavailable(error)) lacks.add('EVAL_RO')
    else throw error
    return runByTtl(connection, keys, budgetUs, ttlMs)
  }
}

/** The server has no such command, or this user may not run it. */
function isUnavailable(error: unknown): boolean {
  return /^(NOPERM|ERR unknown (sub)?command|ERR Command is not available)/i.test(readWords(error))
}

function readWords(error: unknown): string {
  return error instanceof DatabaseError ? error.words : ''
}

/** A script begins no more keys after this. */
export const SCRIPT_BUDGET_US = 500

/** An idempotent change of keys. */
export interface Job {
  readonly name: string
  /** @param budgetUs script time after which no more keys are begun @returns counts of the keys dealt with */
  apply(connection: Connection, keys: readonly KeyName[], budgetUs: number): Promise<BatchResult>
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
    apply: (connection, keys, budgetUs) => runByTtl(connection, keys, budgetUs, ttlMs),
  }
}

export const countBare: Job = {
  name: 'count',
  apply: runByTtl,
}

/** UNLINK takes a whole batch, and Upstash charges for one command. */
export const deleteKeys: Job = {
  name: 'delete',
  async apply({ send }, keys) {
    const changed = (await send(['UNLINK', ...keys])) as number
    return toResult([changed, 0, keys.length - changed])
  },
}

export const countAll: Job = {
  name: 'count all',
  apply: async (_connection, keys) => toResult([keys.length]),
}
