import type { Database, KeyName } from './database.ts'
import { COUNT, EXPIRE, type Script } from './scripts.ts'

/** What became of a batch of keys, the first ones of those given. */
export interface Done {
  /** Keys that were changed; of a count, those that would be. */
  readonly changed: number
  /** Keys that were left as they are: they have a time to live, or are rules or a history of Sluice. */
  readonly kept: number
  /** Keys that were no longer there. */
  readonly gone: number
  /** Of the server, by its own clock; undefined where it tells none. */
  readonly us: number | undefined
}

/** What is done with each key that matches. Done again, it does no harm. */
export interface Job {
  /** In the file that a later run goes on from. */
  readonly name: string
  /** @param budgetUs of the server, after which it begins no more keys */
  apply(database: Database, keys: readonly KeyName[], budgetUs: number): Promise<Done>
}

/** Gives those keys `ttlMs` to live that have no time to live. */
export function expire(ttlMs: number): Job {
  return {
    name: `expire ${ttlMs}`,
    apply: (database, keys, budgetUs) => byTtl(database, EXPIRE, keys, [budgetUs, ttlMs]),
  }
}

/** Counts those keys that have no time to live, and writes nothing. */
export const countBare: Job = {
  name: 'count',
  apply: (database, keys, budgetUs) => byTtl(database, COUNT, keys, [budgetUs]),
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
  async apply(_database, keys) {
    return { changed: keys.length, kept: 0, gone: 0, us: undefined }
  },
}

async function byTtl(database: Database, script: Script, keys: readonly KeyName[], args: number[]): Promise<Done> {
  const [changed = 0, kept = 0, gone = 0, us = 0] = await database.run(script, keys, args)
  return { changed, kept, gone, us: us > 0 ? us : undefined }
}
