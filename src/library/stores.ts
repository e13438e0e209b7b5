import { OptionError } from '../config/option-error.ts'
import type { AlgorithmName } from '../model/limits.ts'
import type { Store } from '../model/store.ts'
import { ExpiringStates } from '../store/memory/expiring-states.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import { LUA } from '../store/redis/more-lua.ts'
import { RedisStore } from '../store/redis/redis-store.ts'
import { checkFunction, checkInteger, checkNames } from './check-options.ts'
import { type AnyRedis, adaptRedis } from './redis-clients.ts'

/** Where a limiter keeps its counts. Limiters that are given the same one share them. */
export interface LimiterStore {
  /** Whether it is asked over a network, and may be away. */
  readonly isRemote: boolean
  /** Deadline of a decision, in milliseconds. */
  readonly timeoutMs: number
  /** The store, for rules of these algorithms. */
  open(algorithms: Iterable<AlgorithmName>): Store
}

/** @throws {OptionError} if that is no store */
export function checkStore(store: LimiterStore): void {
  if (typeof store?.open === 'function') return
  throw new OptionError('store', 'what memoryStore() or redisStore() makes', typeof store)
}

export interface MemoryStoreOptions {
  /** Milliseconds since the Unix epoch, by which the store decides; `Date.now` if left out. */
  readonly now?: () => number
  /**
   * Identities remembered at most, an integer from 1; those that were charged longest ago are forgotten first. Default:
   * 100,000.
   */
  readonly maxKeys?: number
}

/**
 * Counts in this process's memory.
 * @throws {OptionError} for a wrong option
 */
export function memoryStore(options: MemoryStoreOptions = {}): LimiterStore {
  checkNames('memoryStore', options, ['now', 'maxKeys'])
  const { now = () => Date.now(), maxKeys } = options
  checkFunction('memoryStore.now', now)
  if (maxKeys !== undefined) checkInteger('memoryStore.maxKeys', maxKeys, 1, 2 ** 24)
  const store = new MemoryStore(now, new ExpiringStates(maxKeys))
  return { isRemote: false, timeoutMs: Number.POSITIVE_INFINITY, open: () => store }
}

export interface RedisStoreOptions {
  /** How long a decision waits for Redis, resends included, in milliseconds: an integer from 1 to 60,000; 500 if left out. */
  readonly timeoutMs?: number
}

/**
 * Counts in Redis, shared by all that use it: one script call decides.
 * @throws {OptionError} for a wrong option, and for a client that would send a call twice, because that charges twice
 */
export function redisStore(client: AnyRedis, options: RedisStoreOptions = {}): LimiterStore {
  checkNames('redisStore', options, ['timeoutMs'])
  const { timeoutMs = 500 } = options
  checkInteger('redisStore.timeoutMs', timeoutMs, 1, 60_000)
  const adapted = adaptRedis(client)
  return {
    isRemote: true,
    timeoutMs,
    open: (algorithms) => new RedisStore({ client: adapted, algorithms, moreLua: LUA, timeoutMs }),
  }
}
