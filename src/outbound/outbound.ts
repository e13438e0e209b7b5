import { OptionError } from '../config/option-error.ts'
import { checkInteger, checkNames } from '../library/check-options.ts'
import type { LimiterStore } from '../library/stores.ts'
import { createDigest } from '../request/identity/digest.ts'
import { type Clock, systemClock } from './clock.ts'
import { LEARNED_ALGORITHMS, LearnedLimits } from './learned-limits.ts'
import type { OutboundLimiter } from './limiter.ts'
import type { Notes } from './notes.ts'
import {
  checkDuration,
  checkLimiter,
  checkQueueOptions,
  type PerCall,
  QUEUE_OPTIONS,
  type QueueOptions,
  termsOf,
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
  readonly store: LimiterStore
  /** Where processes tell each other what a server said. */
  readonly notes: Notes
  /** First part of every key; `sluice` if left out. */
  readonly prefix?: string
}

/** How `outbound()` waits, what for, and what it learns. */
export interface OutboundOptions extends QueueOptions<[OutboundCall]> {
  /** Limits to keep whatever the server says. Default: only those that the server reports. */
  readonly limiter?: OutboundLimiter
  /**
   * Whose limits a call is charged to: the same for all calls that share a budget at the server. The URL's origin if
   * left out.
   */
  readonly identity?: PerCall<string, [OutboundCall]>
  /** Where what the server says is kept; this process's memory if left out. */
  readonly learned?: Learned
  /**
   * How many milliseconds after its sending the server has counted a call at the latest, 0 or more. If left out, that may be
   * as late as its answer, which makes calls to a server that takes long to answer fewer than it allows.
   */
  readonly countedWithinMs?: number
  /**
   * How often a call is made again after a 429 or 503, an integer from 0 to 100, if its method is idempotent and its
   * body can be sent again. 2 if left out.
   */
  readonly retries?: number
  /**
   * The longest pause in milliseconds that a server can impose, 0 or more, or `Infinity`: then one call finds out
   * whether it still refuses. The same holds for limits with longer windows. An hour if left out.
   */
  readonly maxPauseMs?: number
}

/** A `fetch` that keeps limits. */
export interface OutboundFetch {
  (...call: Parameters<typeof globalThis.fetch>): ReturnType<typeof globalThis.fetch>
  /**
   * Ends pauses at once, and forgets what servers have said.
   * @param identity whose; of all identities if left out
   */
  resume(identity?: string): Promise<void>
}

const OWN_OPTIONS: readonly (keyof OutboundOptions)[] = [
  'limiter',
  'identity',
  'learned',
  'countedWithinMs',
  'retries',
  'maxPauseMs',
]

const MAX_PAUSE_MS = 3_600_000
const MAX_RETRIES = 100

/**
 * Makes a `fetch` that keeps limits: those of a limiter, and those that the server reports by `Retry-After`,
 * `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers, 6 to 11) or `X-RateLimit-*`. After a 429 or
 * 503, all calls of that identity wait.
 *
 * It resolves as `fetch` does: with a 429 too, if that cannot be repeated in time. It rejects with `OutboundError` if a
 * call was not made, with the reason of its signal, with whatever the limiter throws, and as `fetch` does.
 * @throws {OptionError} for a wrong option
 */
export function outbound(fetch: typeof globalThis.fetch, options: OutboundOptions = {}): OutboundFetch {
  const { retries = 2, clock = systemClock, identity: identityOf = ({ url }) => url.origin } = options
  check(options)
  const partitions = createPartitions(options, clock)

  async function limitedFetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const call = describe(input, init)
    const { identity, atMostMs, ...place } = termsOf(options, identityOf, [call])
    const partition = partitions.of(identity)
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined)
    const dueMs = clock.now() + atMostMs
    for (let repetitions = 0; ; repetitions++) {
      const permit = await partition.enter({ ...place, signal, dueMs })
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
  }
  return Object.assign(limitedFetch as typeof globalThis.fetch, {
    async resume(identity?: string) {
      await Promise.all(partitions.known(identity).map((partition) => partition.resume()))
    },
  })
}

function createPartitions(options: OutboundOptions, clock: Clock): Partitions {
  const { limiter, countedWithinMs = Number.POSITIVE_INFINITY, maxQueued = 1_000, random = Math.random } = options
  const { maxPauseMs = MAX_PAUSE_MS } = options
  const { notes, prefix = 'sluice' }: Partial<Learned> = options.learned ?? {}
  const store = options.learned?.store.open(LEARNED_ALGORITHMS)
  const digest = createDigest(undefined)
  return new Partitions((identity) => {
    // One tag for all keys of an identity: they are decided together.
    const tag = digest([identity])
    const keyOf = (name: string, letter: string) => `${prefix}:outbound-${digest([name])}:${letter}:{${tag}}`
    const learned = new LearnedLimits({ store, notes, keyOf, countedWithinMs, maxPauseMs, clock })
    return new Partition({ identity, limiter, learned, maxQueued, maxPauseMs, clock, random })
  })
}

function check(options: OutboundOptions): void {
  checkNames('outbound', options, [...QUEUE_OPTIONS, ...OWN_OPTIONS])
  const { limiter, retries, countedWithinMs, maxPauseMs, learned } = options
  if (limiter !== undefined) checkLimiter(limiter)
  checkQueueOptions(options)
  if (learned !== undefined) checkLearned(learned)
  if (retries !== undefined) checkInteger('retries', retries, 0, MAX_RETRIES)
  if (countedWithinMs !== undefined) checkDuration('countedWithinMs', countedWithinMs)
  if (maxPauseMs !== undefined) checkDuration('maxPauseMs', maxPauseMs)
}

function checkLearned(learned: Learned): void {
  checkNames('learned', learned, ['store', 'notes', 'prefix'])
  const { store, notes } = learned
  if (typeof store?.open !== 'function') throw new OptionError('learned.store', 'what redisStore() makes', typeof store)
  if (typeof notes?.read !== 'function' || typeof notes.write !== 'function') {
    throw new OptionError('learned.notes', 'functions read and write', typeof notes)
  }
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
