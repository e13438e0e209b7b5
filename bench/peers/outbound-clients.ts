/**
 * Other clients of servers that have limits, in virtual time: libraries that hold a limit they are told of, and retries
 * after a refusal.
 */
import Bottleneck from 'bottleneck'
import pThrottle from 'p-throttle'
import type { CreateClient, Site } from '../../test/support/outbound/run-load.ts'
import type { VirtualClock } from '../../test/support/virtual-clock.ts'

/** Their clients read the time and set timers as they like. */
export function replaceTime(clock: VirtualClock): () => void {
  const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis
  const { now } = Date
  const { now: readSteadyMs } = performance
  const stops = new Map<object, () => void>()
  const start = (ms: number, wake: () => void) => {
    const timer = { ref: () => timer, unref: () => timer }
    stops.set(timer, clock.after(Math.max(1, ms || 0), wake))
    return timer
  }
  const stop = (timer: object) => {
    stops.get(timer)?.()
    stops.delete(timer)
  }
  const repeat = (wake: () => void, ms: number) => {
    const timer = start(ms, function startAgain() {
      stops.set(timer, clock.after(ms, startAgain))
      wake()
    })
    return timer
  }
  const fake = {
    setTimeout: (wake: (...rest: unknown[]) => void, ms: number, ...rest: unknown[]) => start(ms, () => wake(...rest)),
    clearTimeout: stop,
    setInterval: repeat,
    clearInterval: stop,
  }
  Object.assign(globalThis, fake)
  Date.now = () => Math.floor(clock.now())
  performance.now = () => clock.now()
  return () => {
    Object.assign(globalThis, { setTimeout, clearTimeout, setInterval, clearInterval })
    Date.now = now
    performance.now = readSteadyMs
  }
}

/** Holds the limit as a reservoir. */
const createBottleneck: CreateClient = ({ provider, fetch }) => {
  const { limit, windowMs, concurrency } = provider.named
  const limiter = new Bottleneck({
    reservoir: limit,
    reservoirRefreshAmount: limit,
    reservoirRefreshInterval: windowMs,
    ...(concurrency !== undefined && { maxConcurrent: concurrency }),
  })
  return (url) => limiter.schedule(() => fetch(url))
}

const createPThrottle: CreateClient = ({ provider, fetch }) => {
  const { limit, windowMs } = provider.named
  return pThrottle({ limit, interval: windowMs, strict: true })((url: string) => fetch(url))
}

/** Milliseconds, of the header in seconds or as a date. */
function readRetryAfter(response: Response): number | undefined {
  const text = response.headers.get('retry-after')
  if (text === null) return undefined
  return Number.isNaN(Number(text)) ? Date.parse(text) - Date.now() : Number(text) * 1_000
}

/** got: https://github.com/sindresorhus/got/blob/main/documentation/7-retry.md: twice, after Retry-After, or 1 s and 2 s. */
const createGotRetry: CreateClient = ({ fetch, clock }) => {
  const statuses = new Set([408, 413, 429, 500, 502, 503, 504, 521, 522, 524])
  return async (url) => {
    for (let attempt = 1; ; attempt++) {
      const response = await fetch(url)
      if (!statuses.has(response.status) || attempt > 2) return response
      await clock.sleep(readRetryAfter(response) ?? 1_000 * 2 ** (attempt - 1))
    }
  }
}

/**
 * @octokit/plugin-throttling, with handlers that repeat twice: ten calls at once, searches two seconds apart; 403 and 429
 * wait for Retry-After, the reset, or a minute. https://github.com/octokit/plugin-throttling.js
 */
const createOctokitRetry: CreateClient = ({ fetch, clock }: Site) => {
  const all = new Bottleneck({ maxConcurrent: 10 })
  const search = new Bottleneck({ maxConcurrent: 1, minTime: 2_000 })
  return async (url) => {
    const send = () => all.schedule(() => fetch(url))
    for (let attempt = 0; ; attempt++) {
      const response = await (url.includes('/search/') ? search.schedule(send) : send())
      if (![403, 429].includes(response.status) || attempt === 2) return response
      const resetS = Number(response.headers.get('x-ratelimit-reset') ?? 0)
      const isUsedUp = response.headers.get('x-ratelimit-remaining') === '0' && resetS > 1e9
      const resetMs = isUsedUp ? Math.max(0, resetS * 1_000 - Date.now()) + 1_000 : 60_000
      await clock.sleep(readRetryAfter(response) ?? resetMs)
    }
  }
}

export const PEERS: Readonly<Record<string, CreateClient>> = {
  bottleneck: createBottleneck,
  'p-throttle': createPThrottle,
  'retry of got': createGotRetry,
  'retry of Octokit': createOctokitRetry,
}
