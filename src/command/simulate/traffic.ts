/** Makes up traffic of a shape, for a simulation without a log. */
import { parseDuration } from '../../core/model/limits.ts'
import { CommandError } from '../command-error.ts'
import type { Batch } from './log-files.ts'
import type { LogEntry } from './log-line.ts'

export interface Traffic {
  readonly callers: number
  /** Requests a second of each caller. */
  readonly rate: number
  /** Requests that each caller sends at once, now and then. */
  readonly burst: { readonly size: number; readonly everyMs: number } | undefined
  readonly durationMs: number
  readonly method: string
  readonly target: string
}

const EXPECTED =
  'parts such as "50 callers, 3/s each, bursts of 20 every minute, for 10m, POST /login" (the first two always)'
const PARTS = [
  /^(?<callers>\d{1,7}) callers?$/,
  /^(?<rate>\d{1,6}(?:\.\d{1,6})?)\/(?<unit>[smhd]) each$/,
  /^bursts of (?<size>\d{1,6}) every (?<every>.+)$/,
  /^for (?<span>\S+)$/,
  /^(?<method>[A-Z]+) (?<target>\/\S*)$/,
]
const DEFAULTS = { burst: undefined, durationMs: 300_000, method: 'GET', target: '/' }
const MAX_CALLERS = 1_000_000
const BATCH_SIZE = 2_000
const NO_HEADERS: LogEntry['headers'] = new Map()
/** Whole windows of any length begin here. */
const START_MS = Date.UTC(2026, 0, 1)

export function parseTraffic(text: string): Traffic {
  let traffic: Partial<Traffic> = {}
  for (const part of text.split(',').map((each) => each.trim())) {
    const read = parsePart(part)
    if (!read) throw new CommandError(`--traffic: expected ${EXPECTED}, got ${JSON.stringify(part.slice(0, 100))}`)
    traffic = { ...traffic, ...read }
  }
  const { callers, rate } = traffic
  if (!callers || rate === undefined || callers > MAX_CALLERS) {
    throw new CommandError(`--traffic: expected ${EXPECTED}, and from 1 to ${MAX_CALLERS} callers`)
  }
  return { ...DEFAULTS, ...traffic, callers, rate }
}

function parsePart(text: string): Partial<Traffic> | undefined {
  const groups = PARTS.map((pattern) => pattern.exec(text)?.groups).find((found) => found !== undefined)
  const { callers, rate, unit, size, every = '', span = '', method, target } = groups ?? {}
  const everyMs = parseSpan(every)
  const durationMs = parseSpan(span)
  if (callers !== undefined) return { callers: Number(callers) }
  if (rate !== undefined) return { rate: (Number(rate) * 1_000) / (parseDuration(`1${unit}`) as number) }
  if (size !== undefined && everyMs !== undefined) return { burst: { size: Number(size), everyMs } }
  if (durationMs !== undefined) return { durationMs }
  return method !== undefined && target !== undefined ? { method, target } : undefined
}

const SPANS = { second: '1s', minute: '1m', hour: '1h', day: '1d' } as const

function parseSpan(text: string): number | undefined {
  return parseDuration(Object.hasOwn(SPANS, text) ? SPANS[text as keyof typeof SPANS] : text)
}

/** Generates the requests of described traffic in order. The same seed makes the same requests. */
export function* generateTraffic(traffic: Traffic, seed: number): Generator<Batch> {
  const { callers, rate, burst, durationMs } = traffic
  const perCaller = (rate * durationMs) / 1_000 + (burst ? burst.size * (durationMs / burst.everyMs) : 0)
  const total = Math.round(callers * perCaller)
  let done = 0
  let entries: LogEntry[] = []
  for (const entry of generateEntries(traffic, createRandom(seed))) {
    if (entries.push(entry) < BATCH_SIZE) continue
    done += entries.length
    yield { entries, done, total }
    entries = []
  }
  yield { entries, done: done + entries.length, total }
}

/** The requests of all callers together are a Poisson process; each caller's bursts come at its own point of the interval. */
function* generateEntries(traffic: Traffic, random: () => number): Generator<LogEntry> {
  const { callers, rate, durationMs, burst } = traffic
  const gap = () => (rate > 0 ? (-Math.log(1 - random()) * 1_000) / (rate * callers) : Number.POSITIVE_INFINITY)
  const phases = Array.from({ length: burst ? callers : 0 }, (_, caller) => ({ caller, share: random() }))
  phases.sort((a, b) => a.share - b.share)
  let singleMs = gap()
  for (let next = 0; ; next++) {
    const phase = burst && phases[next % callers]
    const burstMs = phase ? (Math.floor(next / callers) + phase.share) * burst.everyMs : Number.POSITIVE_INFINITY
    for (; singleMs < Math.min(burstMs, durationMs); singleMs += gap()) {
      yield createEntry(traffic, Math.floor(random() * callers), singleMs)
    }
    if (!phase || burstMs >= durationMs) return
    for (let i = 0; i < burst.size; i++) yield createEntry(traffic, phase.caller, burstMs)
  }
}

function createEntry({ method, target }: Traffic, caller: number, atMs: number): LogEntry {
  const ip = `10.${(caller >> 16) & 255}.${(caller >> 8) & 255}.${caller & 255}`
  const token = `caller-${caller + 1}`
  return { timeMs: START_MS + atMs, method, target, ip, token, headers: NO_HEADERS, status: undefined }
}

/** Mulberry32, by Tommy Ettinger: numbers from 0 to below 1 that look random, the same for the same seed. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
