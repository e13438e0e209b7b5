/** A `fetch` that keeps to limits, and a function that does. */
import { formatKey } from '../core/model/charge.ts'
import { checkFunction, checkOptions } from '../core/options/check-options.ts'
import { createDigest } from '../core/runtime/digest.ts'
import { CallScheduler, CallSchedulers } from './call-scheduler.ts'
import { type Clock, systemClock } from './clock.ts'
import { LEARNED_ALGORITHMS, LearnedLimits } from './learned-limits.ts'
import {
  OUTBOUND_CHECKS,
  type OutboundCall,
  type OutboundOptions,
  resolve,
  resolveCallSettings,
  type SharedLimits,
  THROTTLE_CHECKS,
  type ThrottleOptions,
} from './options.ts'
import { type Answer, readRetryAfter, readServerLimits } from './server-limit.ts'

/** A `fetch` that keeps limits. */
export interface OutboundFetch {
  (...call: Parameters<typeof globalThis.fetch>): ReturnType<typeof globalThis.fetch>
  /** Ends pauses at once, and deletes what was learned. @param identity all if left out */
  resume(identity?: string): Promise<void>
}

/** RFC 9110, §9.2.2. */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE'])

/**
 * Makes a `fetch` that keeps limits: those of a limiter, and those that the server reports by `Retry-After`,
 * `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers, 6 to 11) or `X-RateLimit-*`.
 *
 * It resolves as `fetch` does: with a 429 too, if that cannot be repeated in time. It rejects with `OutboundError` if a
 * call was not made, with the reason of its signal, with whatever the limiter throws, and as `fetch` does.
 * @example const partner = outbound(fetch, { limiter: createLimiter({ limits: '300/1m' }) })
 * @throws {OptionError} for a wrong option
 */
export function outbound(fetch: typeof globalThis.fetch, options: OutboundOptions = {}): OutboundFetch {
  checkFunction('fetch', fetch)
  checkOptions('outbound', options, OUTBOUND_CHECKS)
  const { retries = 2, clock = systemClock, identity = ({ url }) => url.origin } = options
  const schedulers = createSchedulers(options, clock)

  async function fetchWithinLimits(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const call = describeCall(input, init)
    const settings = resolveCallSettings(options, identity, [call])
    const scheduler = schedulers.get(settings.identity)
    // Null takes the signal of a request away.
    const signal = init?.signal === undefined ? toRequest(input)?.signal : init.signal
    const dueMs = clock.now() + settings.maxWaitMs
    const readResponse = (response: Response) => readAnswer(response, clock.now())
    for (let repetitions = 0; ; repetitions++) {
      const scheduled = { ...settings, signal, dueMs, repetitions }
      const response = await scheduler.run(scheduled, () => fetch(input, init), readResponse)
      const isRepeated = isRefusal(response) && repetitions < retries && isReplayable(call.method, input, init)
      if (!isRepeated || clock.now() + scheduler.pausedMs > dueMs) return response
      // The next call needs its connection. The body may have broken off, or somebody else may read it.
      response.body?.cancel().catch(() => {})
    }
  }
  const resume = (identity?: string) => schedulers.resume(identity)
  return Object.assign(fetchWithinLimits as typeof globalThis.fetch, { resume })
}

/**
 * Makes a function wait until the limiter allows it, in the order of `priority` and `tenant`. It rejects with
 * `OutboundError` if a call cannot be made, with the reason of its signal, and as the limiter and the function do.
 * @example const send = throttle(sendMail, { limiter, identity: (mail) => mail.domain })
 * @throws {OptionError} for a wrong option
 */
export function throttle<Arguments extends readonly unknown[], Result>(
  work: (...call: Arguments) => Result | Promise<Result>,
  options: ThrottleOptions<Arguments>,
): (...call: Arguments) => Promise<Result> {
  checkFunction('work', work)
  checkOptions('throttle', options, THROTTLE_CHECKS)
  THROTTLE_CHECKS.limiter('limiter', options.limiter)
  THROTTLE_CHECKS.identity('identity', options.identity)
  const { limiter, maxQueued = 1_000, clock = systemClock, random = Math.random } = options
  const schedulers = new CallSchedulers(
    (identity) => new CallScheduler({ identity, limiter, learned: undefined, maxQueued, maxPauseMs: 0, clock, random }),
  )
  return async function callWithinLimits(...call) {
    const settings = resolveCallSettings(options, options.identity, call)
    const signal = resolve(options.signal, call)
    const dueMs = clock.now() + settings.maxWaitMs
    return schedulers.get(settings.identity).run({ ...settings, signal, dueMs }, () => work(...call))
  }
}

function createSchedulers(options: OutboundOptions, clock: Clock): CallSchedulers {
  const { limiter, countedWithinMs = Number.POSITIVE_INFINITY, maxQueued = 1_000, random = Math.random } = options
  const { maxPauseMs = 3_600_000 } = options
  const { notes, keyPrefix = 'sluice' }: Partial<SharedLimits> = options.shared ?? {}
  const store = options.shared?.store.open(LEARNED_ALGORITHMS)
  const digest = createDigest(undefined)
  return new CallSchedulers((identity) => {
    // One tag for all keys of an identity: they are decided together.
    const tag = digest([identity])
    const toKey = (name: string, letter: string) => formatKey(keyPrefix, `outbound-${digest([name])}`, letter, tag)
    const learned = new LearnedLimits({ store, notes, toKey, countedWithinMs, maxPauseMs, clock })
    return new CallScheduler({ identity, limiter, learned, maxQueued, maxPauseMs, clock, random })
  })
}

/** @throws {TypeError} if the URL cannot be parsed */
function describeCall(input: RequestInfo | URL, init: RequestInit | undefined): OutboundCall {
  const request = toRequest(input)
  return {
    url: new URL(request ? request.url : String(input)),
    method: (init?.method ?? request?.method ?? 'GET').toUpperCase(),
    headers: new Headers(init?.headers ?? request?.headers),
  }
}

/** A `fetch` may have a class of its own for requests. */
function toRequest(input: RequestInfo | URL): Request | undefined {
  return typeof input === 'object' && 'method' in input ? input : undefined
}

function readAnswer(response: Response, nowMs: number): Answer {
  const { headers } = response
  const limits = readServerLimits(headers, nowMs)
  return { isRefusal: isRefusal(response), retryAfterMs: readRetryAfter(headers, nowMs), limits }
}

function isRefusal({ status }: Response): boolean {
  return status === 429 || status === 503
}

/** A call can be made again if its method is idempotent, and its body can be read again. */
function isReplayable(method: string, input: RequestInfo | URL, init: RequestInit | undefined): boolean {
  if (!IDEMPOTENT.has(method)) return false
  const body: unknown = init?.body ?? toRequest(input)?.body
  if (body === undefined || body === null || typeof body === 'string' || ArrayBuffer.isView(body)) return true
  // Streams and iterables can be read only once.
  return [ArrayBuffer, Blob, FormData, URLSearchParams].some((type) => body instanceof type)
}
