import { parseDuration } from '../../model/limits.ts'
import { CommandError } from '../command-error.ts'
import type { LogEntry } from './log-entry.ts'

/** Traffic in words. */
export interface Traffic {
  readonly callers: number
  /** Requests a second of each caller, at random moments. */
  readonly rate: number
  /** Requests that each caller sends at once, now and then. */
  readonly burst: { readonly size: number; readonly everyMs: number } | undefined
  readonly durationMs: number
  readonly method: string
  readonly target: string
}

const EXPECTED =
  'parts such as "50 callers, 3/s each, bursts of 20 every minute, for 10m, POST /login" (the first two always)'
const UNITS = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const
const RATE_UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const USUAL_DURATION_MS = 300_000
const MOST_CALLERS = 1_000_000
/** Whole windows of any length begin here. */
const START_MS = Date.UTC(2026, 0, 1)

/** @throws {CommandError} */
export function parseTraffic(text: string): Traffic {
  let callers: number | undefined
  let rate: number | undefined
  let traffic: Omit<Traffic, 'callers' | 'rate'> = {
    burst: undefined,
    durationMs: USUAL_DURATION_MS,
    method: 'GET',
    target: '/',
  }
  for (const part of text.split(',').map((each) => each.trim())) {
    const [, count] = /^(\d{1,7}) callers?$/.exec(part) ?? []
    const [, each, unit] = /^(\d{1,6}(?:\.\d{1,6})?)\/([smhd]) each$/.exec(part) ?? []
    const [, size, every = ''] = /^bursts of (\d{1,6}) every (.+)$/.exec(part) ?? []
    const [, span = ''] = /^for (\S+)$/.exec(part) ?? []
    const [, method, target] = /^([A-Z]+) (\/\S*)$/.exec(part) ?? []
    const everyMs = durationOf(every)
    const spanMs = durationOf(span)
    if (count !== undefined) callers = Number(count)
    else if (each !== undefined) rate = (Number(each) * 1_000) / RATE_UNITS[unit as keyof typeof RATE_UNITS]
    else if (size !== undefined && everyMs !== undefined)
      traffic = { ...traffic, burst: { size: Number(size), everyMs } }
    else if (spanMs !== undefined) traffic = { ...traffic, durationMs: spanMs }
    else if (method !== undefined && target !== undefined) traffic = { ...traffic, method, target }
    else throw new CommandError(`--traffic: expected ${EXPECTED}, got ${JSON.stringify(part.slice(0, 100))}`)
  }
  if (!callers || rate === undefined || callers > MOST_CALLERS) {
    throw new CommandError(`--traffic: expected ${EXPECTED}, and from 1 to ${MOST_CALLERS} callers`)
  }
  return { ...traffic, callers, rate }
}

function durationOf(text: string): number | undefined {
  const unit = UNITS[text as keyof typeof UNITS]
  return unit ?? parseDuration(text)
}

/** About how many requests that makes. */
export function expectedRequests({ callers, rate, burst, durationMs }: Traffic): number {
  return Math.round(callers * ((rate * durationMs) / 1_000 + (burst ? burst.size * (durationMs / burst.everyMs) : 0)))
}

/**
 * The requests of such traffic, in order. Each caller's moments are those of a Poisson process; its bursts come at a
 * moment of the interval that is its own. The same seed makes the same requests.
 */
export function* trafficOf(traffic: Traffic, seed: number): Generator<LogEntry> {
  const { callers, rate, durationMs, burst } = traffic
  const random = randomFrom(seed)
  const gap = () => (rate > 0 ? (-Math.log(1 - random()) * 1_000) / (rate * callers) : Number.POSITIVE_INFINITY)
  // All callers together are a Poisson process, too.
  let singleMs = gap()
  const bursts = burst ? burstsOf(burst, callers, random) : undefined
  let next = bursts?.next().value
  while (true) {
    if (next && burst && next.atMs <= singleMs) {
      if (next.atMs >= durationMs) return
      for (let i = 0; i < burst.size; i++) yield entryOf(traffic, next.caller, next.atMs)
      next = bursts?.next().value
    } else {
      if (singleMs >= durationMs) return
      yield entryOf(traffic, Math.floor(random() * callers), singleMs)
      singleMs += gap()
    }
  }
}

function* burstsOf(
  { everyMs }: { readonly everyMs: number },
  callers: number,
  random: () => number,
): Generator<{ readonly caller: number; readonly atMs: number }, undefined> {
  const phases = Array.from({ length: callers }, (_, caller) => ({ caller, atMs: random() * everyMs }))
  phases.sort((a, b) => a.atMs - b.atMs)
  for (let round = 0; ; round++) {
    for (const { caller, atMs } of phases) yield { caller, atMs: atMs + round * everyMs }
  }
}

const NO_HEADERS: LogEntry['headers'] = new Map()

function entryOf({ method, target }: Traffic, caller: number, atMs: number): LogEntry {
  const ip = `10.${(caller >> 16) & 255}.${(caller >> 8) & 255}.${caller & 255}`
  return {
    timeMs: START_MS + atMs,
    method,
    target,
    ip,
    token: `caller-${caller + 1}`,
    headers: NO_HEADERS,
    status: undefined,
  }
}

/** Mulberry32, by Tommy Ettinger: numbers from 0 to below 1 that look random, the same for the same seed. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
