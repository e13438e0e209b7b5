/** A `fetch` that keeps to limits, and a function that does. */
import type { CheckedLimits } from '../core/options/checked-text.ts'
import { OptionError } from '../core/options/option-error.ts'
import { FUNCTION, read, readOptions, SIGNAL } from '../core/options/readers.ts'
import { consoleLog, createHook, throttle as throttleLog } from '../core/runtime/log.ts'
import { systemClock } from './clock.ts'
import type { Answer } from './lanes.ts'
import {
  OUTBOUND_READERS,
  type OutboundCall,
  type OutboundDecision,
  type OutboundOptions,
  type QueueOptions,
  resolveCallSettings,
  THROTTLE_READERS,
  type ThrottleOptions,
} from './options.ts'
import { createOwnLimiter } from './own-limits.ts'
import { readReport } from './read-limits.ts'
import { Scheduler } from './scheduler.ts'
import { Schedulers } from './schedulers.ts'

/** A `fetch` that keeps limits. */
export interface OutboundFetch {
  (...call: Parameters<typeof globalThis.fetch>): ReturnType<typeof globalThis.fetch>
  /** Ends pauses at once, and deletes what was learned. @param resource all if left out */
  resume(resource?: string): void
}

/** RFC 9110, §9.2.2. */
const IDEMPOTENT = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']
const DEFAULT_ATTEMPTS = 3
const FIRST_PAUSE_MS = 1_000
const MAX_PAUSE_MS = 3_600_000

/**
 * Makes a `fetch` that keeps limits: its own, and those that the server reports or shows by its refusals.
 *
 * It resolves as `fetch` does: with a refusal too, if that cannot be repeated in time. It rejects with `OutboundError` if
 * a call was not made, with the reason of its signal, with whatever the limiter throws, and as `fetch` does.
 * @example const partner = outbound(fetch, { limits: '300/1m' })
 * @throws {OptionError} for a wrong option
 */
export function outbound<LimitsText extends string = string>(
  fetch: typeof globalThis.fetch,
  options: OutboundOptions & CheckedLimits<LimitsText> = {},
): OutboundFetch {
  read(FUNCTION, fetch, 'fetch')
  readOptions('outbound', options, OUTBOUND_READERS)
  const { clock = systemClock, resource = ({ url }) => url.origin, retry = {} } = options
  const { attempts = DEFAULT_ATTEMPTS, methods = IDEMPOTENT, isRefusal: isOwnRefusal } = retry
  const repeatable = new Set(methods.map((method) => method.toUpperCase()))
  const schedulers = createSchedulers(options, true, options)
  const readAnswer = async (response: Response, sentAtMs: number): Promise<Answer> => {
    const { headers, status, ok } = response
    const nowMs = clock.now()
    const report = readReport(headers, ok ? sentAtMs : nowMs, nowMs)
    const { readLimits } = options
    const limits = readLimits ? [...report.limits, ...(await readClone(response, readLimits))] : report.limits
    const isRepeatable =
      isLimitRefusal(response, report) || (isOwnRefusal && (await readClone(response, isOwnRefusal))) === true
    // Whoever sends the field with an error asks for a pause.
    const isRefusal = isRepeatable || (status >= 400 && headers.has('Retry-After') && report.retryAfterMs !== undefined)
    return { ...report, limits, status, isRefusal, isRepeatable }
  }

  async function fetchWithinLimits(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const call = describeCall(input, init)
    const { maxWaitMs, signal, ...settings } = resolveCallSettings(options, resource, [call])
    const scheduler = schedulers.get(settings.resource)
    const request = toRequest(input)
    const isReplayable = attempts > 1 && canRepeat(call, repeatable, init)
    // Null takes the signal of a request away.
    const signals = [init?.signal === undefined ? request?.signal : init.signal, signal]
    for (const each of signals) if (each !== undefined && each !== null) read(SIGNAL, each, 'signal')
    const dueMs = clock.now() + maxWaitMs
    const route = `${call.method} ${call.url.pathname}`
    for (let repetitions = 0; ; repetitions++) {
      const scheduled = { ...settings, route, signals, dueMs, repetitions }
      // The body of a request can be read once.
      const make = () => fetch(isReplayable && request?.body && !init?.body ? request.clone() : input, init)
      const { result, answer, decision } = await scheduler.run(scheduled, make, readAnswer)
      if (options.actualCost && decision) void applyActualCost(scheduler, decision, options.actualCost, result)
      const isRepeated = answer?.isRepeatable && isReplayable && repetitions + 1 < attempts
      if (!isRepeated || !scheduler.isInTime(scheduled)) return result
      // The next call needs its connection. The body may have broken off, or somebody else may read it.
      result.body?.cancel().catch(() => {})
    }
  }
  const resume = (resource?: string) => schedulers.resume(resource)
  return Object.assign(fetchWithinLimits as typeof globalThis.fetch, { resume })
}

/**
 * Makes a function wait until its limits allow it, in the order of `priority` and `tenant`. It rejects with
 * `OutboundError` if a call cannot be made, with the reason of its signal, and as the limiter and the function do.
 * @example const send = throttle(sendMail, { limits: '10/1s', identity: (mail) => mail.domain })
 * @throws {OptionError} for a wrong option
 */
export function throttle<This, Arguments extends readonly unknown[], Result, LimitsText extends string = string>(
  work: (this: This, ...call: Arguments) => Result | Promise<Result>,
  options: ThrottleOptions<Arguments> & CheckedLimits<LimitsText>,
): (this: This, ...call: Arguments) => Promise<Result> {
  read(FUNCTION, work, 'work')
  readOptions('throttle', options, THROTTLE_READERS)
  const { limiter, limits, concurrency, identity = '' } = options
  if (limiter === undefined && limits === undefined && concurrency === undefined) {
    throw new OptionError('limits', 'limits, limiter or concurrency', undefined)
  }
  const { clock = systemClock } = options
  const schedulers = createSchedulers(options, false)
  return async function callWithinLimits(this: This, ...call) {
    const { maxWaitMs, signal, ...settings } = resolveCallSettings(options, identity, call)
    const scheduled = { ...settings, route: '', signals: [signal], dueMs: clock.now() + maxWaitMs, repetitions: 0 }
    const { result } = await schedulers.get(settings.resource).run(scheduled, () => Reflect.apply(work, this, call))
    return result
  }
}

/** Reads a copy, and ends it: its rest would be kept for as long as the caller takes to read the response. */
async function readClone<T>(response: Response, read: (response: Response) => T | Promise<T>): Promise<T> {
  const clone = copyToRead(response)
  try {
    return await read(clone)
  } finally {
    clone.body?.cancel().catch(() => {})
  }
}

/** Copies a response for its reader, who stops when the caller cancels its body: else the server would go on. */
function copyToRead(response: Response): Response {
  const copy = response.clone()
  const { body } = response
  if (!body || !copy.body) return copy
  const left = new AbortController()
  const cancel = body.cancel.bind(body)
  body.cancel = (reason) => {
    left.abort(reason)
    return cancel(reason)
  }
  const read = new Response(copy.body.pipeThrough(new TransformStream(), { signal: left.signal }), copy)
  return Object.defineProperty(read, 'url', { value: copy.url })
}

/** The charge stays as it is if nothing else is known: it is no fault of the call. */
async function applyActualCost(
  scheduler: Scheduler,
  decision: OutboundDecision,
  actualCost: NonNullable<OutboundOptions['actualCost']>,
  response: Response,
): Promise<void> {
  try {
    const units = await readClone(response, actualCost)
    if (units !== undefined && units >= 0) await scheduler.settle(decision, Math.ceil(units))
  } catch {}
}

function createSchedulers(
  options: OutboundOptions | ThrottleOptions<never>,
  readsAnswers: boolean,
  { pauseMs = FIRST_PAUSE_MS, maxPauseMs = MAX_PAUSE_MS }: Pick<OutboundOptions, 'pauseMs' | 'maxPauseMs'> = {},
): Schedulers {
  const { clock = systemClock, random = Math.random, maxQueued = 1_000 }: QueueOptions<never> = options
  const { concurrency = Number.POSITIVE_INFINITY } = options
  const limiter = createOwnLimiter(options, clock)
  const log = throttleLog(consoleLog, () => clock.now())
  const onWait = createHook('onWait', options.onWait, log)
  const onDecision = createHook('onDecision', options.onDecision, log)
  const isLimited = limiter !== undefined || !readsAnswers
  const shared = { limiter, isLimited, maxQueued, pauseMs, maxPauseMs, concurrency, clock, random, onWait, onDecision }
  return new Schedulers((resource) => new Scheduler({ resource, ...shared }))
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

/** GitHub answers 403. A 503 that names no time is a failure of that call, and a 403 mostly means what it says. */
function isLimitRefusal({ status, headers }: Response, { limits }: Pick<Answer, 'limits'>): boolean {
  const hasTime = headers.has('Retry-After')
  if (status === 403) return hasTime || limits.some(({ remaining }) => remaining === 0)
  return status === 429 || (status === 503 && hasTime)
}

/** A call can be made again if its method allows that, and its body can be read again. */
function canRepeat(
  { method, headers }: OutboundCall,
  repeatable: ReadonlySet<string>,
  init: RequestInit | undefined,
): boolean {
  const isAllowed = repeatable.has(method) || headers.has('Idempotency-Key')
  const body: unknown = init?.body
  // Streams and iterables can be read only once.
  const isReadable = body === undefined || body === null || typeof body === 'string' || ArrayBuffer.isView(body)
  return (
    isAllowed && (isReadable || [ArrayBuffer, Blob, FormData, URLSearchParams].some((type) => body instanceof type))
  )
}
