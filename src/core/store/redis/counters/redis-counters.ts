/** Statistics in Redis. */
import {
  addFlush,
  addTo,
  type CounterValues,
  type Flush,
  KEPT_MS,
  PERIOD_MS,
  type Period,
  type Resolution,
  SKETCH_CAPACITY,
  type StatisticsStore,
  TOTALS_KEPT_MS,
} from '../../counters.ts'
import { readSketch, type Sketch, writeSketch } from '../../sketches.ts'
import { createReplyError, RedisCalls, type RedisCallsOptions, toCount, toScript, toTexts } from '../redis-calls.ts'
import { LUA } from './lua.ts'

/**
 * Several periods share a hash, so that few commands read a range: its fields are `<period> <name>` for a count,
 * `<period>~<name>` for a sketch, with the number of the period in the hash, and `@<source>` for what was added.
 */
const HASHES = {
  minute: { name: 'minutes', spanMs: 10 * PERIOD_MS.minute },
  hour: { name: 'hours', spanMs: 24 * PERIOD_MS.hour },
} as const

const ADD = toScript(`return (function(...)\n${LUA.add.lua}\nend)((function()\n${LUA['merge-sketches'].lua}\nend)())`)
const READ = toScript(LUA.read.lua)

/** Sums of times have more digits than other numbers: a count that is no longer exact is still a count. */
const COUNT_DIGITS = 16

interface Additions {
  readonly keepMs: number
  readonly counts: Map<string, number>
  readonly sketches: Map<string, Sketch>
}

/** Counts shared by all that use one Redis: a flush is one EVALSHA, and two commands for each hash. */
export class RedisCounters implements StatisticsStore {
  readonly #calls: RedisCalls
  readonly #prefix: string

  constructor({ keyPrefix, ...options }: RedisCallsOptions & { readonly keyPrefix: string }) {
    this.#calls = new RedisCalls(options)
    this.#prefix = `${keyPrefix}:statistics:`
  }

  async add(flush: Flush): Promise<void> {
    const hashes = new Map<string, Additions>()
    for (const { period, ...added } of addFlush(flush, () => undefined)) {
      if (period === 'total') hashes.set(this.#totalsKey, { keepMs: TOTALS_KEPT_MS, ...added })
      else this.#addPeriod(hashes, period, added)
    }
    const args: (string | number)[] = [`@${flush.source}`, flush.number, SKETCH_CAPACITY]
    for (const { keepMs, counts, sketches } of hashes.values()) {
      args.push(keepMs, counts.size)
      for (const [field, count] of counts) args.push(field, count)
      args.push(sketches.size)
      for (const [field, sketch] of sketches) args.push(field, writeSketch(sketch))
    }
    const added = await this.#calls.evaluate(ADD, [...hashes.keys()], args)
    if (added !== 0 && added !== 1) throw createReplyError()
  }

  async read(resolution: Resolution, fromMs: number, toMs: number): Promise<readonly Period[]> {
    const { spanMs } = HASHES[resolution]
    const keys: string[] = []
    const starts: number[] = []
    const firstMs = Math.max(fromMs, toMs - KEPT_MS[resolution] - PERIOD_MS[resolution])
    for (let startMs = Math.floor(firstMs / spanMs) * spanMs; startMs < toMs; startMs += spanMs) {
      keys.push(this.#formatKey(resolution, startMs))
      starts.push(startMs)
    }
    if (keys.length === 0) return []
    const hashes = await this.#readHashes(keys)
    return hashes
      .flatMap((fields, index) => readPeriods(fields, resolution, starts[index] as number))
      .filter(({ startMs }) => startMs < toMs && startMs + PERIOD_MS[resolution] > fromMs)
  }

  async readTotals(): Promise<CounterValues> {
    const [fields] = await this.#readHashes([this.#totalsKey])
    return new Map(fields?.map(([name, value]) => [name, toCount(value, COUNT_DIGITS)]))
  }

  get #totalsKey(): string {
    return `${this.#prefix}totals`
  }

  #formatKey(resolution: Resolution, startMs: number): string {
    const { name, spanMs } = HASHES[resolution]
    return `${this.#prefix}${name}:${Math.floor(startMs / spanMs)}`
  }

  #addPeriod(hashes: Map<string, Additions>, resolution: Resolution, { startMs, counts, sketches }: Period): void {
    const { spanMs } = HASHES[resolution]
    const key = this.#formatKey(resolution, startMs)
    const own = hashes.get(key) ?? { keepMs: spanMs + KEPT_MS[resolution], counts: new Map(), sketches: new Map() }
    hashes.set(key, own)
    const period = Math.floor((startMs % spanMs) / PERIOD_MS[resolution])
    const toFields = <T>(values: ReadonlyMap<string, T>, mark: string) =>
      new Map([...values].map(([name, value]) => [`${period}${mark}${name}`, value]))
    addTo(own, { counts: toFields(counts, ' '), sketches: toFields(sketches, '~') })
  }

  async #readHashes(keys: string[]): Promise<(readonly [string, string])[][]> {
    const reply = await this.#calls.evaluate(READ, keys, [])
    if (!Array.isArray(reply) || reply.length !== keys.length) throw createReplyError()
    return reply.map(toPairs)
  }
}

/** @param startMs the start of the first period that the hash may hold. @returns the earliest first */
function readPeriods(
  fields: readonly (readonly [string, string])[],
  resolution: Resolution,
  startMs: number,
): Period[] {
  const periods = new Map<number, { counts: Map<string, number>; sketches: Map<string, Sketch> }>()
  for (const [field, value] of fields) {
    if (field.startsWith('@')) continue
    const [, number, kind, name = ''] = /^(\d+)([ ~])(.+)$/.exec(field) ?? []
    if (number === undefined) throw createReplyError()
    const period = periods.get(Number(number)) ?? { counts: new Map(), sketches: new Map() }
    periods.set(Number(number), period)
    if (kind === ' ') period.counts.set(name, toCount(value, COUNT_DIGITS))
    else period.sketches.set(name, toSketch(value))
  }
  return [...periods]
    .sort(([a], [b]) => a - b)
    .map(([number, period]) => ({ startMs: startMs + number * PERIOD_MS[resolution], ...period }))
}

function toPairs(reply: unknown): (readonly [string, string])[] {
  const texts = toTexts(reply)
  if (texts.length % 2 !== 0) throw createReplyError()
  return Array.from({ length: texts.length / 2 }, (_, index) => [
    texts[2 * index] as string,
    texts[2 * index + 1] as string,
  ])
}

function toSketch(value: string): Sketch {
  const sketch = readSketch(value)
  if (!sketch) throw createReplyError()
  return sketch
}
