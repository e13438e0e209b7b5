import { StoreError } from '../../../model/store.ts'
import {
  type Counts,
  type Flush,
  KEPT_MS,
  mergeSketches,
  NO_SKETCH,
  PERIOD_MS,
  type Period,
  type Resolution,
  readSketch,
  SKETCH_CAPACITY,
  type Sketch,
  type StatisticsStore,
  TOTALS_KEPT_MS,
  writeSketch,
} from '../../counters.ts'
import { RedisCalls, type RedisCallsOptions, toScript } from '../redis-calls.ts'
import { LUA } from './lua.ts'

export interface RedisCountersOptions extends RedisCallsOptions {
  /** First part of every key. */
  readonly keyPrefix: string
}

/**
 * Several periods share a hash, so that a range is read by few commands: its fields are `<period> <name>` for a count,
 * `<period>~<name>` for a sketch, with the number of the period in the hash, and `@<source>` for what was added.
 */
const HASHES = {
  minute: { name: 'minutes', spanMs: 10 * PERIOD_MS.minute },
  hour: { name: 'hours', spanMs: 24 * PERIOD_MS.hour },
} as const

const ADD = toScript(`return (function(...)\n${LUA.add.lua}\nend)((function()\n${LUA['merge-sketches'].lua}\nend)())`)
const READ = toScript(LUA.read.lua)

/** Fields of a hash, and what is to be done with each. */
interface Additions {
  readonly keepMs: number
  readonly counts: Map<string, number>
  readonly sketches: Map<string, Sketch>
}

/** Counts shared by all that use one Redis: a flush is one EVALSHA, and two commands for each hash. */
export class RedisCounters implements StatisticsStore {
  readonly #calls: RedisCalls
  readonly #prefix: string

  constructor({ keyPrefix, ...options }: RedisCountersOptions) {
    this.#calls = new RedisCalls(options)
    this.#prefix = `${keyPrefix}:statistics:`
  }

  async add({ source, number, minutes }: Flush): Promise<void> {
    const hashes = new Map<string, Additions>()
    for (const minute of minutes) {
      for (const resolution of ['minute', 'hour'] as const) this.#addPeriod(hashes, resolution, minute)
    }
    const totals = additionsIn(hashes, this.#totalsKey, TOTALS_KEPT_MS)
    for (const { counts } of minutes) for (const [name, count] of counts) addCount(totals, name, count)
    const args: (string | number)[] = [`@${source}`, number, SKETCH_CAPACITY]
    for (const { keepMs, counts, sketches } of hashes.values()) {
      args.push(keepMs, counts.size)
      for (const [field, count] of counts) args.push(field, count)
      args.push(sketches.size)
      for (const [field, sketch] of sketches) args.push(field, writeSketch(sketch))
    }
    const added = await this.#calls.evaluate(ADD, [...hashes.keys()], args)
    if (added !== 0 && added !== 1) throw new StoreError('Redis answered something other than whether it has added')
  }

  async read(resolution: Resolution, fromMs: number, toMs: number): Promise<readonly Period[]> {
    const { spanMs } = HASHES[resolution]
    const keys: string[] = []
    const starts: number[] = []
    const firstMs = Math.max(fromMs, toMs - KEPT_MS[resolution] - PERIOD_MS[resolution])
    for (let startMs = Math.floor(firstMs / spanMs) * spanMs; startMs < toMs; startMs += spanMs) {
      keys.push(this.#key(resolution, startMs))
      starts.push(startMs)
    }
    if (keys.length === 0) return []
    const hashes = await this.#readHashes(keys)
    return hashes
      .flatMap((fields, index) => periodsIn(fields, resolution, starts[index] as number))
      .filter(({ startMs }) => startMs < toMs && startMs + PERIOD_MS[resolution] > fromMs)
  }

  async totals(): Promise<Counts> {
    const [fields] = await this.#readHashes([this.#totalsKey])
    return new Map(fields?.map(([name, value]) => [name, toCount(value)]))
  }

  get #totalsKey(): string {
    return `${this.#prefix}totals`
  }

  /** @param startMs of a period, or of the hash's first */
  #key(resolution: Resolution, startMs: number): string {
    const { name, spanMs } = HASHES[resolution]
    return `${this.#prefix}${name}:${Math.floor(startMs / spanMs)}`
  }

  #addPeriod(hashes: Map<string, Additions>, resolution: Resolution, { startMs, counts, sketches }: Period): void {
    const { spanMs } = HASHES[resolution]
    const additions = additionsIn(hashes, this.#key(resolution, startMs), spanMs + KEPT_MS[resolution])
    const period = Math.floor((startMs % spanMs) / PERIOD_MS[resolution])
    for (const [name, count] of counts) addCount(additions, `${period} ${name}`, count)
    for (const [name, sketch] of sketches) {
      const field = `${period}~${name}`
      const others = additions.sketches.get(field) ?? NO_SKETCH
      additions.sketches.set(field, mergeSketches(others, sketch, SKETCH_CAPACITY))
    }
  }

  async #readHashes(keys: string[]): Promise<(readonly [string, string])[][]> {
    const reply = await this.#calls.evaluate(READ, keys, [])
    if (!Array.isArray(reply) || reply.length !== keys.length) throw unreadable()
    return reply.map(toPairs)
  }
}

function additionsIn(hashes: Map<string, Additions>, key: string, keepMs: number): Additions {
  let additions = hashes.get(key)
  if (!additions) {
    additions = { keepMs, counts: new Map(), sketches: new Map() }
    hashes.set(key, additions)
  }
  return additions
}

function addCount({ counts }: Additions, field: string, count: number): void {
  counts.set(field, (counts.get(field) ?? 0) + count)
}

/** The periods in a hash, the earliest first. @param startMs of the first that it may hold */
function periodsIn(fields: readonly (readonly [string, string])[], resolution: Resolution, startMs: number): Period[] {
  const periods = new Map<number, { counts: Map<string, number>; sketches: Map<string, Sketch> }>()
  for (const [field, value] of fields) {
    if (field.startsWith('@')) continue
    const [, number, kind, name = ''] = /^(\d+)([ ~])(.+)$/.exec(field) ?? []
    if (number === undefined) throw unreadable()
    let period = periods.get(Number(number))
    if (!period) {
      period = { counts: new Map(), sketches: new Map() }
      periods.set(Number(number), period)
    }
    if (kind === ' ') period.counts.set(name, toCount(value))
    else period.sketches.set(name, toSketch(value))
  }
  return [...periods]
    .sort(([a], [b]) => a - b)
    .map(([number, period]) => ({ startMs: startMs + number * PERIOD_MS[resolution], ...period }))
}

/** @param reply that to HGETALL */
function toPairs(reply: unknown): (readonly [string, string])[] {
  if (!isTexts(reply) || reply.length % 2 !== 0) throw unreadable()
  const pairs: (readonly [string, string])[] = []
  for (let at = 0; at < reply.length; at += 2) pairs.push([reply[at] as string, reply[at + 1] as string])
  return pairs
}

function isTexts(reply: unknown): reply is readonly string[] {
  return Array.isArray(reply) && reply.every((each) => typeof each === 'string')
}

function toCount(value: string): number {
  if (!/^\d{1,16}$/.test(value)) throw unreadable()
  return Number(value)
}

function toSketch(value: string): Sketch {
  const sketch = readSketch(value)
  if (!sketch) throw unreadable()
  return sketch
}

function unreadable(): StoreError {
  return new StoreError('Redis answered something other than counts')
}
