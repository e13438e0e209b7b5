/** Stores for limiters and middleware. */
import type { GuardOptions } from '../core/engine/places/guarded-place.ts'
import { withHashSlots } from '../core/engine/places/hash-slots.ts'
import { findLayouts, SHARD_STATES, withShards } from '../core/engine/places/shards.ts'
import type { AlgorithmName } from '../core/model/limits.ts'
import type { Policy } from '../core/model/policy.ts'
import type { Shard, Store } from '../core/model/store.ts'
import { OptionError } from '../core/options/option-error.ts'
import * as v from '../core/options/readers.ts'
import { readLatestMs } from '../core/runtime/clocks.ts'
import type { Log } from '../core/runtime/log.ts'
import { Lru } from '../core/runtime/lru.ts'
import { ExpiringStates } from '../core/store/memory/expiring-states.ts'
import { WindowStore } from '../core/store/memory/window-store.ts'
import type { RedisClient } from '../core/store/redis/client.ts'
import { adaptUpstash, type UpstashRedis } from '../core/store/redis/client.ts'
import { LUA } from '../core/store/redis/more-lua.ts'
import { RedisStore } from '../core/store/redis/redis-store.ts'
import { adaptIoRedis, adaptNodeRedis, type IoRedis, type NodeRedis } from '../core/store/redis/tcp-clients.ts'

/** Stores the counts of limiters. Limiters that are given the same one share them. */
export interface LimiterStore {
  /** It is called over a network, and may be unavailable. */
  readonly isRemote: boolean
  /** Deadline of a decision, in milliseconds. */
  readonly timeoutMs: number
  /** The object that holds the counts, such as a client: stores with the same one share them. Default: the store. */
  readonly counts?: object
  /**
   * Opens the store for these algorithms.
   * @param guards of several databases, or of the nodes of a cluster
   */
  open(algorithms: Iterable<AlgorithmName>, guards?: Pick<GuardOptions, 'log' | 'hasBreaker'>): Store
}

export interface MemoryStoreOptions {
  /**
   * Milliseconds since the Unix epoch, by which the store decides.
   * @default Date.now
   * @example () => clock.nowMs
   */
  readonly now?: (() => number) | undefined
  /**
   * Maximum number of identities, an integer from 1; those that were charged longest ago are deleted first.
   * @default 100_000
   * @example 1_000_000
   */
  readonly maxKeys?: number | undefined
}

const MEMORY_READERS = {
  now: v.CLOCK,
  maxKeys: v.integer(1, 2 ** 24),
} satisfies Readonly<Record<keyof MemoryStoreOptions, v.Reader>>

/**
 * Counts in this process's memory.
 * @example memoryStore({ maxKeys: 1_000_000 })
 * @throws {OptionError} for a wrong option
 */
export function memoryStore(options: MemoryStoreOptions = {}): LimiterStore {
  const { now = readLatestMs, maxKeys } = v.readOptions('memoryStore', options, MEMORY_READERS, 'memoryStore')
  const states = new ExpiringStates(maxKeys)
  const store = new WindowStore(now, states)
  const opened: LimiterStore = { isRemote: false, timeoutMs: Number.POSITIVE_INFINITY, open: () => store }
  USES.set(opened, states.use)
  return opened
}

type Use = ExpiringStates['use']

/** Stores in memory, and how each is used. */
const USES = new WeakMap<LimiterStore, Use>()

/** More limiters in a row, made by one line for one request each, are no start of a program and no test. */
const MAX_UNUSED = 100
/** Each line that makes limiters, and the uses of the last ones. */
const MADE = new Lru<Use[]>(1_000)
let isWarned = false

/** Warns once of limiters that are made in a handler: with counts of their own in memory, they limit nobody. */
export function noteLimiter(store: LimiterStore, log: Log): void {
  const use = USES.get(store)
  const place = use && !isWarned && new Error().stack?.split('\n', 8).join()
  if (!use || !place) return
  const before = MADE.get(place) ?? []
  const isOnceEach = before.every(({ decisions }) => decisions <= 1)
  // A start of a program makes many before any decides; requests that come at once, a few.
  const used = before.filter(({ decisions }) => decisions === 1).length
  MADE.set(place, isOnceEach && before.at(-1) !== use ? [...before.slice(1 - MAX_UNUSED), use] : [use])
  if (!isOnceEach || before.length < MAX_UNUSED || used < MAX_UNUSED / 2) return
  isWarned = true
  const message = `${MAX_UNUSED} limiters were made at one place, for one request each: make one outside of the handler`
  log('warn', { event: 'made_per_request', message })
}

/**
 * A client that `redisStore` takes: `@upstash/redis`, `@redis/client` (or `redis`) or `ioredis`, the last two also of a
 * cluster or of sentinels, or an adapter.
 */
export type AnyRedis = UpstashRedis | NodeRedis | IoRedis | RedisClient

export interface RedisStoreOptions {
  /**
   * Deadline of a decision, resends included, in milliseconds: an integer from 1 to 60,000.
   * @default 500
   * @example 200
   */
  readonly timeoutMs?: number | undefined
}

/** A client of one of several databases. */
export interface RedisShard extends Shard {
  readonly client: AnyRedis
}

/**
 * Counts in Redis, shared by all that use it: one script call decides. With several databases, each counts a share of the
 * identities, found by their names.
 * @example redisStore(createClient({ url: 'redis://localhost:6379' }))
 * @example redisStore([{ name: 'a', client: one }, { name: 'b', client: other }])
 * @throws {OptionError} for a wrong option, and for a client that would send a call twice, because that charges twice
 */
export function redisStore(clients: AnyRedis | readonly RedisShard[], options: RedisStoreOptions = {}): LimiterStore {
  const { timeoutMs } = v.readOptions('redisStore', options, v.STORE_READERS, 'redisStore')
  const shards = isList(clients) ? checkShards(clients) : [{ name: '', client: clients }]
  const adapted = shards.map(({ client, ...shard }) => ({ ...shard, client: adaptRedis(client) }))
  return {
    isRemote: true,
    ...(shards[0] && { counts: shards[0].client }),
    timeoutMs,
    open(algorithms, guards) {
      const opened = adapted.map(({ client, ...shard }) => {
        const { isCluster = false, findNode } = client
        const store = new RedisStore({ client, algorithms, moreLua: LUA, timeoutMs })
        return { ...shard, store: withHashSlots(store, { ...guards, timeoutMs, isCluster, findNode }) }
      })
      const [only, ...others] = opened
      return only && others.length === 0 ? only.store : withShards(opened, { ...guards, timeoutMs })
    },
  }
}

function isList(clients: AnyRedis | readonly RedisShard[]): clients is readonly RedisShard[] {
  return Array.isArray(clients)
}

function checkShards(shards: readonly RedisShard[]): readonly RedisShard[] {
  const { now, next } = findLayouts(shards)
  const isOnce = new Set(shards.flatMap(({ name, client }) => [name, client])).size === 2 * shards.length
  const isWrong = ({ name, state }: Shard) =>
    typeof name !== 'string' || !v.NAME.pattern.test(name) || ![undefined, ...SHARD_STATES].includes(state)
  if (isOnce && now.length > 0 && next.length > 0 && !shards.some(isWrong)) return shards
  const expected =
    'a list of { name, client } with each name and client once and, while some move, state: "joining" or "leaving", not of all'
  throw new OptionError(
    'redisStore',
    expected,
    shards.map(({ name, state }) => ({ name, state })),
  )
}

interface Counting {
  readonly windows: string
  /** Undefined: other numbers may count with these. */
  readonly limits: string | undefined
  readonly place: string
  /** Nothing has run since it was made. */
  isNew: boolean
}

/** Describes the policies that count in each object, by the beginning of their keys. */
const COUNTED = new WeakMap<object, Map<string, Counting>>()

/**
 * Policies with the same keys share their counts, and each keeps them for its own windows only. Those of other processes
 * are not known here. In development, a module that is loaded again may change its limits: it takes its own place.
 * @param describe what policies with the same keys, if this describes both, must have in common besides their windows
 * @throws {OptionError} if two of them differ
 */
export function refuseSharedNames<Counted extends Policy>(
  store: LimiterStore,
  keyPrefix: string,
  policies: readonly Counted[],
  describe: (policy: Counted) => unknown = () => undefined,
): void {
  const counts = store.counts ?? store
  const known = COUNTED.get(counts) ?? new Map<string, Counting>()
  COUNTED.set(counts, known)
  const place = readCallers()
  for (const policy of policies) {
    const key = `${keyPrefix}:${policy.name}:${policy.algorithm}`
    const windows = JSON.stringify(policy.limits.map(({ windowMs, calendar }) => [windowMs, calendar]))
    const other = known.get(key)
    const limits = JSON.stringify(describe(policy)) as string | undefined
    const counting = { windows, limits: limits ?? other?.limits, place, isNew: true }
    const isSame = windows === other?.windows && (!limits || !other.limits || limits === other.limits)
    if (other && !isSame && !isReloaded(other, counting)) {
      throw new OptionError('name', 'a name or a keyPrefix of its own for each set of limits in one store', policy.name)
    }
    known.set(key, counting)
    void Promise.resolve().then(() => {
      counting.isNew = false
    })
  }
}

/** Limiters that one module makes at once are different ones; in production, no module is loaded again. */
function isReloaded(before: Counting, after: Counting): boolean {
  const { process } = globalThis as { process?: { readonly env?: { readonly NODE_ENV?: string } } }
  return process?.env?.NODE_ENV !== 'production' && !before.isNew && before.place === after.place
}

/** Names the files of the innermost calls, that of a module among them. Next.js loads it again by a URL with a query. */
function readCallers(): string {
  const calls = new Error().stack?.split('\n').slice(1, 7) ?? []
  return calls.map((call) => /(?<=\/)[^/?:][^?:]*/.exec(call.replace(/%5B|%5D|[[\]]/g, ''))?.[0]).join('\n')
}

/** Distinguishes the clients: each has a function that the others lack. */
function adaptRedis(client: AnyRedis): RedisClient {
  if (typeof client === 'object' && client !== null) {
    if ('serverWords' in client) return client
    refuseUnsafe(client)
    const readFailure = trackConnection(client as ClientEvents)
    if ('evalSha' in client) return { ...readNumbers(adaptNodeRedis(client)), readFailure }
    if ('defineCommand' in client) return { ...readNumbers(adaptIoRedis(client)), readFailure }
    if ('createScript' in client) return adaptUpstash(client)
  }
  throw new OptionError('redisStore', 'a client of @upstash/redis, @redis/client or ioredis', typeof client)
}

/** Clients may be told to give numbers as text, bytes or BigInts: `stringNumbers` of ioredis, `typeMapping` of `@redis/client`. */
function readNumbers(client: RedisClient): RedisClient {
  const toNumber = (value: unknown) => (/^\d{1,16}$/.test(String(value)) ? Number(value) : value)
  const read = (reply: unknown) => (Array.isArray(reply) ? reply.map(toNumber) : toNumber(reply))
  return {
    ...client,
    evalsha: (...call) => client.evalsha(...call).then(read),
    eval: (...call) => client.eval(...call).then(read),
    zrem: (...call) => client.zrem(...call).then(read),
    del: (...call) => client.del(...call).then(read),
  }
}

interface ClientEvents {
  on?(event: string, listener: (error: Error & { readonly code?: string }) => void): unknown
}

const READERS = new WeakMap<object, () => string | undefined>()
/** Clients try to connect again within this, and fail again. */
const FAILURE_LASTS_MS = 10_000

/**
 * Listens to a client, for which Node would end the process if nobody did when the connection is lost. What then fails is
 * logged as `store_error`, with the code of the failure or, if it is an answer of Redis, its first word: no more may be
 * logged.
 */
function trackConnection(client: ClientEvents): () => string | undefined {
  const known = READERS.get(client)
  if (known) return known
  let failure: string | undefined
  let failedAtMs = 0
  client.on?.('error', ({ code, message }) => {
    failure = code ?? /^[A-Z]{2,}\b/.exec(message)?.[0]
    failedAtMs = Date.now()
  })
  const readFailure = () => (Date.now() - failedAtMs < FAILURE_LASTS_MS ? failure : undefined)
  READERS.set(client, readFailure)
  return readFailure
}

/** Internals of the clients that show how they send calls. */
interface ClientInternals {
  /** `@upstash/redis` */
  readonly enableAutoPipelining?: boolean
  /** `@upstash/redis` */
  readonly client?: {
    readonly retry?: { readonly attempts?: number }
    readonly options?: { readonly signal?: unknown }
  }
  /** `@redis/client` */
  readonly _keyPrefix?: unknown
  /** `ioredis` */
  readonly isCluster?: unknown
  /** `ioredis` */
  readonly options?: {
    readonly autoResendUnfulfilledCommands?: unknown
    readonly retryDelayOnFailover?: number
    readonly clusterNodeRetryStrategy?: unknown
    readonly redisOptions?: { readonly autoResendUnfulfilledCommands?: unknown }
  }
}

/** @throws {OptionError} if the client may send a call twice, or several calls as one, as far as its internals show */
function refuseUnsafe(redis: object): void {
  const refuse = (expected: string, value: unknown) => {
    throw new OptionError('redisStore', expected, value)
  }
  const { isCluster, enableAutoPipelining, client, options, _keyPrefix: keyPrefix } = redis as ClientInternals
  // Calls are given to it in a way of their own, which knows no prefix.
  if ('getSentinelNode' in redis && (!('_execute' in redis) || keyPrefix !== undefined)) {
    refuse('a createSentinel() of @redis/client 5 or later, without keyPrefix', 'another')
  }
  // It takes callbacks, and returns no promise.
  if ('evalSha' in redis && 'sendCommand' in redis && !('withTypeMapping' in redis)) {
    refuse('a client of @redis/client itself', 'its legacy()')
  }
  if ('createScript' in redis) {
    // Callers would wait for a promise that others share, which on Workers never ends.
    const made = 'an @upstash/redis client made with UPSTASH_OPTIONS, e.g. Redis.fromEnv(UPSTASH_OPTIONS): it has'
    if (enableAutoPipelining) refuse(`${made} enableAutoPipelining: false`, true)
    const attempts = client?.retry?.attempts ?? 0
    if (attempts > 0) refuse(`${made} retry: { retries: 0 }`, attempts)
    // Once it is aborted, the client answers with its reason as if Redis had.
    if (typeof client?.options?.signal === 'object') {
      refuse('an @upstash/redis client without a signal, or with a function', 'a signal')
    }
  }
  if (isCluster === true) {
    const delayMs = options?.retryDelayOnFailover
    const expected = 'a Cluster of ioredis with retryDelayOnFailover: 0 (cluster.duplicate([], { … }) makes one)'
    if (delayMs !== 0) refuse(expected, delayMs)
    const isResent = options?.redisOptions?.autoResendUnfulfilledCommands !== false
    if (isResent && typeof options?.clusterNodeRetryStrategy === 'function') {
      refuse('a Cluster of ioredis with redisOptions: { autoResendUnfulfilledCommands: false }', true)
    }
  }
  // It would resend calls that had no answer when the connection broke.
  if ('defineCommand' in redis && options?.autoResendUnfulfilledCommands === true) {
    refuse('an ioredis client with autoResendUnfulfilledCommands: false (client.duplicate({ … }) makes one)', true)
  }
}
