import { parseDuration } from '../../model/limits.ts'
import { CommandError } from '../command-error.ts'
import type { Context } from '../subcommand.ts'
import type { LogEntry } from './log-line.ts'

/** A description of traffic. */
export interface Traffic {
  readonly callers: number
  /** Requests a second of each caller, at random times. */
  readonly rate: number
  /** Requests that each caller sends at once, now and then. */
  readonly burst: { readonly size: number; readonly everyMs: number } | undefined
  readonly durationMs: number
  readonly method: string
  readonly target: string
}

const EXPECTED =
  'parts such as "50 callers, 3/s each, bursts of 20 every minute, for 10m, POST /login" (the first two always)'
const DEFAULT_DURATION_MS = 300_000
const MAX_CALLERS = 1_000_000
const BATCH_SIZE = 2_000
/** Whole windows of any length begin here. */
const START_MS = Date.UTC(2026, 0, 1)

/** @throws {CommandError} */
export function parseTraffic(text: string): Traffic {
  let callers: number | undefined
  let rate: number | undefined
  let traffic: Omit<Traffic, 'callers' | 'rate'> = {
    burst: undefined,
    durationMs: DEFAULT_DURATION_MS,
    method: 'GET',
    target: '/',
  }
  for (const part of text.split(',').map((each) => each.trim())) {
    const [, count] = /^(\d{1,7}) callers?$/.exec(part) ?? []
    const [, each, unit] = /^(\d{1,6}(?:\.\d{1,6})?)\/([smhd]) each$/.exec(part) ?? []
    const [, size, every = ''] = /^bursts of (\d{1,6}) every (.+)$/.exec(part) ?? []
    const [, span = ''] = /^for (\S+)$/.exec(part) ?? []
    const [, method, target] = /^([A-Z]+) (\/\S*)$/.exec(part) ?? []
    const everyMs = parseSpan(every)
    const durationMs = parseSpan(span)
    if (count !== undefined) callers = Number(count)
    else if (each !== undefined) rate = (Number(each) * 1_000) / (parseDuration(`1${unit}`) as number)
    else if (size !== undefined && everyMs !== undefined)
      traffic = { ...traffic, burst: { size: Number(size), everyMs } }
    else if (durationMs !== undefined) traffic = { ...traffic, durationMs }
    else if (method !== undefined && target !== undefined) traffic = { ...traffic, method, target }
    else throw new CommandError(`--traffic: expected ${EXPECTED}, got ${JSON.stringify(part.slice(0, 100))}`)
  }
  if (!callers || rate === undefined || callers > MAX_CALLERS) {
    throw new CommandError(`--traffic: expected ${EXPECTED}, and from 1 to ${MAX_CALLERS} callers`)
  }
  return { ...traffic, callers, rate }
}

/** @param text such as `90s` or `minute` */
function parseSpan(text: string): number | undefined {
  return parseDuration(/^(?:second|minute|hour|day)$/.test(text) ? `1${text.charAt(0)}` : text)
}

/** Generates the requests of described traffic in order, until Ctrl-C. The same seed makes the same requests. */
export async function* generateTraffic(
  traffic: Traffic,
  seed: number,
  { terminal, signal }: Pick<Context, 'terminal' | 'signal'>,
): AsyncGenerator<readonly LogEntry[]> {
  const { callers, rate, burst, durationMs } = traffic
  const perCaller = (rate * durationMs) / 1_000 + (burst ? burst.size * (durationMs / burst.everyMs) : 0)
  const progress = terminal.progress('requests', Math.round(callers * perCaller))
  let done = 0
  let entries: LogEntry[] = []
  try {
    for (const entry of generateEntries(traffic, createRandom(seed))) {
      if (entries.push(entry) < BATCH_SIZE) continue
      yield entries
      done += entries.length
      entries = []
      progress.set(done)
      // Lets a Ctrl-C be heard.
      await new Promise(setImmediate)
      if (signal.aborted) return
    }
    yield entries
  } finally {
    progress.end()
  }
}

/** Each caller's requests are a Poisson process; its bursts come at a point of the interval that is its own. */
function* generateEntries(traffic: Traffic, random: () => number): Generator<LogEntry> {
  const { callers, rate, durationMs, burst } = traffic
  const gap = () => (rate > 0 ? (-Math.log(1 - random()) * 1_000) / (rate * callers) : Number.POSITIVE_INFINITY)
  // All callers together are a Poisson process, too.
  let singleMs = gap()
  const bursts = burst && generateBursts(burst.everyMs, callers, random)
  let next = bursts?.next().value
  while (true) {
    if (next && burst && next.atMs <= singleMs) {
      if (next.atMs >= durationMs) return
      for (let i = 0; i < burst.size; i++) yield createEntry(traffic, next.caller, next.atMs)
      next = bursts?.next().value
    } else {
      if (singleMs >= durationMs) return
      yield createEntry(traffic, Math.floor(random() * callers), singleMs)
      singleMs += gap()
    }
  }
}

function* generateBursts(
  everyMs: number,
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

function createEntry({ method, target }: Traffic, caller: number, atMs: number): LogEntry {
  const ip = `10.${(caller >> 16) & 255}.${(caller >> 8) & 255}.${caller & 255}`
  const token = `caller-${caller + 1}`
  return { timeMs: START_MS + atMs, method, target, ip, token, headers: NO_HEADERS, status: undefined }
}

/** Mulberry32, by Tommy Ettinger: numbers from 0 to below 1 that look random, the same for the same seed. */
function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
