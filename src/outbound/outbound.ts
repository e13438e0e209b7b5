import type { AlgorithmName } from '../limit/algorithm-table.ts'
import { createDigest } from '../request/identity/digest.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import type { Store } from '../store/store.ts'
import { type Clock, systemClock } from './clock.ts'
import { LEARNED_ALGORITHMS, LearnedLimits } from './learned-limits.ts'
import type { OutboundLimiter } from './limiter.ts'
import type { Notes } from './notes.ts'
import {
  checkCount,
  checked,
  checkLimiter,
  checkWaitOptions,
  isDuration,
  ofCall,
  type PerCall,
  termsOf,
  type WaitOptions,
} from './options.ts'
import { type Answer, Partition } from './partition.ts'
import { Partitions } from './partitions.ts'
import { isReplayable } from './replay.ts'
import { readRetryAfter } from './retry-after.ts'
import { readServerLimits } from './server-limit.ts'

/** What is known of a call before it is made. */
export interface OutboundCall {
  readonly url: URL
  /** In capital letters. */
  readonly method: string
  readonly headers: Headers
}

/** Where what servers say is kept, so that several processes obey it together. */
export interface Learned {
  /** What `redisStore()` makes: where the calls of all processes are counted. */
  readonly store: LearnedStore
  /** Where processes tell each other what a server said. */
  readonly notes: Notes
  /** First part of every key. Default: `sluice`. */
  readonly prefix?: string
}

/** Opens a store for rules of some algorithms. */
export interface LearnedStore {
  open(algorithms: Iterable<AlgorithmName>): Store
}

export interface OutboundOptions extends WaitOptions<[OutboundCall]> {
  /** Limits to keep whatever the server says. Default: only those that the server reports. */
  readonly limiter?: OutboundLimiter
  /**
   * Whose limits a call is charged to: the same for all calls that share a budget at the server. Default: the URL's
   * origin.
   */
  readonly identity?: PerCall<string, [OutboundCall]>
  /** Default: this process's memory. */
  readonly learned?: Learned
  /**
   * The server counts a call at most this many milliseconds after it was sent. Default: at any time before its answer.
   * Set it for servers that take long to answer, because a call is assumed to be counted as late as possible.
   */
  readonly countedWithinMs?: number
  /**
   * How often a call is made again after a 429 or 503, an integer from 0, if its method is idempotent and its body can
   * be sent again. Default: 2.
   */
  readonly retries?: number
}

/**
 * Makes a `fetch` that keeps limits: those of a limiter, and those that the server reports by `Retry-After`,
 * `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers, 6 to 11) or `X-RateLimit-*`. After a 429 or
 * 503, all calls of that identity wait.
 *
 * It resolves as `fetch` does: with a 429 too, if that cannot be repeated in time. It rejects with `OutboundError` if a
 * call was not made, with the reason of its signal, with whatever the limiter throws, and as `fetch` does.
 * @throws {TypeError} for an option that is not as described
 */
export function outbound(fetch: typeof globalThis.fetch, options: OutboundOptions = {}): typeof globalThis.fetch {
  const { retries = 2, clock = systemClock, identity = ({ url }) => url.origin } = options
  check(options)
  const partitions = createPartitions(options, clock)

  return async function limitedFetch(input: RequestInfo | URL, init?: RequestInit) {
    const call = describe(input, init)
    const name = checked('identity', ofCall(identity, [call]), (value) => typeof value === 'string', 'a string')
    const partition = partitions.of(name)
    const { atMostMs, ...terms } = termsOf(options, [call])
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined)
    const dueMs = clock.now() + atMostMs
    for (let repetitions = 0; ; repetitions++) {
      const permit = await partition.enter({ ...terms, signal, dueMs })
      let answer: Answer | undefined
      let response: Response
      try {
        response = await fetch(input, init)
        answer = read(response, clock.now())
      } finally {
        await permit.ended(answer)
      }
      const isRepeated = answer.isRefusal && repetitions < retries && isReplayable(call.method, input, init)
      if (!isRepeated || clock.now() + partition.pausedMs > dueMs) return response
      // Its connection is needed for what comes.
      await response.body?.cancel()
    }
  } as typeof globalThis.fetch
}

function createPartitions(options: OutboundOptions, clock: Clock): Partitions {
  const { limiter, countedWithinMs = Number.POSITIVE_INFINITY, maxQueued = 1_000, random = Math.random } = options
  const { notes, prefix = 'sluice' }: Partial<Learned> = options.learned ?? {}
  const store = options.learned?.store.open(LEARNED_ALGORITHMS) ?? new MemoryStore(() => clock.now())
  const digest = createDigest(undefined)
  return new Partitions((identity) => {
    // One tag for all keys of an identity: they are decided together.
    const tag = digest([identity])
    const keyOf = (name: string, letter: string) => `${prefix}:outbound-${digest([name])}:${letter}:{${tag}}`
    const learned = new LearnedLimits({ store, notes, keyOf, countedWithinMs, clock })
    return new Partition({ identity, limiter, learned, maxQueued, clock, random })
  })
}

function check(options: OutboundOptions): void {
  const { limiter, retries, countedWithinMs, learned } = options
  if (limiter !== undefined) checkLimiter(limiter)
  checkWaitOptions(options)
  if (learned !== undefined) checkLearned(learned)
  if (retries !== undefined) checkCount('retries', retries, 0)
  if (countedWithinMs !== undefined) {
    checked('countedWithinMs', countedWithinMs, isDuration, 'milliseconds, 0 or more')
  }
}

function checkLearned({ store, notes }: Learned): void {
  const isFunction = (value: unknown) => typeof value === 'function'
  checked('learned.store', store, (value) => isFunction(value?.open), 'what redisStore() makes')
  checked('learned.notes', notes, (value) => isFunction(value?.read) && isFunction(value?.write), '{ read, write }')
}

/** The call as `fetch` would make it of its arguments. @throws {TypeError} if the URL cannot be parsed */
function describe(input: RequestInfo | URL, init: RequestInit | undefined): OutboundCall {
  const request = input instanceof Request ? input : undefined
  return {
    url: new URL(request ? request.url : String(input)),
    method: (init?.method ?? request?.method ?? 'GET').toUpperCase(),
    headers: new Headers(init?.headers ?? request?.headers),
  }
}

function read({ status, headers }: Response, nowMs: number): Answer {
  return {
    isRefusal: status === 429 || status === 503,
    retryAfterMs: readRetryAfter(headers, nowMs),
    limits: readServerLimits(headers, nowMs),
  }
}
