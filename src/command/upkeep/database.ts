import type { Script } from './scripts.ts'

/** A key's name: text, or the bytes of a name that is none, where the connection can carry it. */
export type KeyName = string | Buffer

/** What one SCAN answers. */
export interface Page {
  /** Where the next one goes on; `0` at the end. */
  readonly cursor: string
  readonly keys: readonly KeyName[]
  /** Matching keys whose names are not text, and which this connection cannot name. */
  readonly unnameable: number
}

/** A command that took longer than the server's `slowlog-log-slower-than`. */
export interface SlowCommand {
  readonly id: number
  readonly us: number
  readonly isOurs: boolean
}

/**
 * A database, as the upkeep of its keys sees it. All that it does may be repeated, so whatever is called may be called
 * again after an error.
 */
export interface Database {
  /** Calls that may be under way at once. */
  readonly inFlight: number
  scan(cursor: string, match: string, count: number): Promise<Page>
  /** Answers the script's numbers. */
  run(script: Script, keys: readonly KeyName[], args: readonly number[]): Promise<readonly number[]>
  /** Removes keys without waiting for their memory, and answers how many there were. */
  unlink(keys: readonly KeyName[]): Promise<number>
  ping(): Promise<void>
  /** All of its keys, whatever their names. */
  size(): Promise<number>
  /** A section of INFO, or undefined where the server tells none. */
  info(section: string): Promise<ReadonlyMap<string, string> | undefined>
  /** The latest ones, newest first, or undefined where the server tells none. */
  slowCommands(): Promise<readonly SlowCommand[] | undefined>
  close(): Promise<void>
}

/** What went wrong with a database. Its message holds no key, no credential and no whole command. */
export class DatabaseError extends Error {
  /** Whether the same call may succeed later. */
  readonly isPassing: boolean

  constructor(message: string, isPassing: boolean) {
    super(message)
    this.isPassing = isPassing
  }
}

/** Errors of a server that is starting, failing over or held up by somebody's script. */
const PASSING = /^(LOADING|BUSY|MASTERDOWN|TRYAGAIN|CLUSTERDOWN|ERR no answer from Redis)\b/

/** Errors that only a cluster answers. */
const OF_CLUSTER = /^(CROSSSLOT|MOVED|ASK)\b/

export const CLUSTER_IS_NOT_SUPPORTED =
  'this server is a node of a Redis Cluster, which is not supported: SCAN sees the keys of one node only'

/** @param words the server's own */
export function serverError(words: string): DatabaseError {
  if (OF_CLUSTER.test(words)) return new DatabaseError(CLUSTER_IS_NOT_SUPPORTED, false)
  return new DatabaseError(`Redis answered an error: ${words.slice(0, 200)}`, PASSING.test(words))
}

/** Whether the server's words say that it has no such command, or that this user may not run it. */
export function isUnavailable(words: string): boolean {
  return /^(NOPERM|ERR unknown (sub)?command|ERR Command is not available)/i.test(words)
}

/** Reads the reply of INFO. */
export function parseInfo(text: string): ReadonlyMap<string, string> {
  const lines = text.split(/\r?\n/).filter((line) => /^\w+:/.test(line))
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]))
}
