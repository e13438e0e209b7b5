/** The interface of a store of statistics, and the merging of sketches of frequent names. */

export type Resolution = 'minute' | 'hour'

export const PERIOD_MS: Readonly<Record<Resolution, number>> = { minute: 60_000, hour: 3_600_000 }

/** Counts can be read for so long after the end of their period. */
export const KEPT_MS: Readonly<Record<Resolution, number>> = { minute: 4 * 3_600_000, hour: 60 * 86_400_000 }

/** Totals can be read for so long after the last flush. */
export const TOTALS_KEPT_MS = 61 * 86_400_000

export const SKETCH_CAPACITY = 50

/** Integers from 0, by name. Names have no line breaks. */
export type CounterValues = ReadonlyMap<string, number>

export interface Period {
  /** Milliseconds since the Unix epoch, a multiple of the period's length. */
  readonly startMs: number
  readonly counts: CounterValues
  readonly sketches: ReadonlyMap<string, Sketch>
}

/** The counts of one source since its last flush. */
export interface Flush {
  /** Random letters and digits. */
  readonly source: string
  /** It counts up from 1. */
  readonly number: number
  /** There is at least one, and each minute comes once. */
  readonly minutes: readonly Period[]
}

/** Adds up the counts of all isolates: by minute, by hour and in total. Names must be few, whoever calls. */
export interface StatisticsStore {
  /**
   * A flush that was added before changes nothing, so it may be repeated within an hour after it was first sent, if its
   * source sends no other one meanwhile.
   * @throws {StoreError} whether it was added is then unknown
   */
  add(flush: Flush): Promise<void>
  /** @returns the periods that overlap with this time and have counts, the earliest first. @throws {StoreError} */
  read(resolution: Resolution, fromMs: number, toMs: number): Promise<readonly Period[]>
  /** @returns all counts so far; they are deleted after a month without a flush. @throws {StoreError} */
  readTotals(): Promise<CounterValues>
}

export function findPeriodStart(resolution: Resolution, atMs: number): number {
  return Math.floor(atMs / PERIOD_MS[resolution]) * PERIOD_MS[resolution]
}

interface MutablePeriod {
  readonly counts: Map<string, number>
  readonly sketches: Map<string, Sketch>
}

/** A period, or all that was ever counted, which starts at 0, in a store that rewrites it with each flush. */
export interface KeptPeriod extends MutablePeriod {
  readonly period: Resolution | 'total'
  readonly startMs: number
  /** A minute has, by source, the number of the last flush that began with it. */
  readonly added: Map<string, number>
}

/**
 * Adds a flush, unless it was added before.
 * @param read reads what is kept of a period
 * @returns the periods that have changed, each once
 */
export function addFlush(
  { source, number, minutes }: Flush,
  read: (period: KeptPeriod['period'], startMs: number) => KeptPeriod | undefined,
): KeptPeriod[] {
  const changed = new Map<string, KeptPeriod>()
  const find = (period: KeptPeriod['period'], startMs: number): KeptPeriod => {
    const unused = { period, startMs, counts: new Map(), sketches: new Map(), added: new Map() }
    const known = changed.get(`${period} ${startMs}`) ?? read(period, startMs) ?? unused
    changed.set(`${period} ${startMs}`, known)
    return known
  }
  const [first] = minutes
  if (!first) return []
  const { added } = find('minute', first.startMs)
  if (number <= (added.get(source) ?? 0)) return []
  added.set(source, number)
  for (const minute of minutes) {
    addTo(find('minute', minute.startMs), minute)
    addTo(find('hour', findPeriodStart('hour', minute.startMs)), minute)
    addCounts(find('total', 0).counts, minute.counts)
  }
  return [...changed.values()]
}

/** A flush that comes again within this time after it was sent is recognized. */
const KNOWN_FOR_MS = 2 * 3_600_000

export function findExpiry({ period, startMs }: Pick<KeptPeriod, 'period' | 'startMs'>, nowMs: number): number {
  if (period === 'total') return nowMs + TOTALS_KEPT_MS
  return Math.max(startMs + PERIOD_MS[period] + KEPT_MS[period], nowMs + KNOWN_FOR_MS)
}

export function addTo(period: MutablePeriod, { counts, sketches }: Pick<Period, 'counts' | 'sketches'>): void {
  addCounts(period.counts, counts)
  for (const [name, sketch] of sketches) {
    period.sketches.set(name, mergeSketches(period.sketches.get(name) ?? NO_SKETCH, sketch, SKETCH_CAPACITY))
  }
}

export function addCounts(sums: Map<string, number>, counts: CounterValues): void {
  for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count)
}

/**
 * The most frequent names, in bounded space: a summary as Space-Saving keeps it (Metwally, Agrawal and El Abbadi,
 * "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005), merged as in Cafaro, Pulimeno and
 * Tempesta, "A parallel Space Saving algorithm for frequent items", 2016. Same as `lua/counters/merge-sketches.lua`.
 *
 * After n events, each name in a sketch of k names was seen at most `count` times and at least `count - over` times, and no
 * name that is missing more than `floor` times; neither `over` nor `floor` exceeds n/k, however many sketches of at least
 * k names were merged.
 */
export interface Sketch {
  /** The most frequent first. */
  readonly items: readonly SketchItem[]
  /** A name that is not among the items was seen at most so often. */
  readonly floor: number
}

export interface SketchItem {
  /** Without white space, of ASCII. */
  readonly name: string
  readonly count: number
  readonly over: number
  /** The latest one that was not empty, for people to read. */
  readonly label?: string | undefined
}

export const NO_SKETCH: Sketch = { items: [], floor: 0 }

/** @param capacity names that the result keeps at most */
export function mergeSketches(one: Sketch, other: Sketch, capacity: number): Sketch {
  const ones = new Map(one.items.map((item) => [item.name, item]))
  const merged: SketchItem[] = other.items.map((item) => {
    const known = ones.get(item.name)
    ones.delete(item.name)
    const { count, over } = known ?? { count: one.floor, over: one.floor }
    return { ...item, count: item.count + count, over: item.over + over, label: item.label ?? known?.label }
  })
  for (const item of ones.values()) {
    merged.push({ ...item, count: item.count + other.floor, over: item.over + other.floor })
  }
  return truncateSketch(merged, one.floor + other.floor, capacity)
}

export function truncateSketch(items: SketchItem[], floor: number, capacity: number): Sketch {
  items.sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1))
  const [skipped] = items.splice(capacity)
  return { items, floor: Math.max(floor, skipped?.count ?? 0) }
}

/** Writes the floor, then a line for each item, as Redis keeps them. */
export function writeSketch({ items, floor }: Sketch): string {
  const lines = items.map(({ name, count, over, label }) => {
    return `\n${name} ${count} ${over}${label === undefined ? '' : ` ${encodeURIComponent(label)}`}`
  })
  return `${floor}${lines.join('')}`
}

export function readSketch(text: string): Sketch | undefined {
  const [floor = '', ...lines] = text.split('\n')
  const items = lines.map(readItem)
  return /^\d+$/.test(floor) && items.every((item) => item !== undefined) ? { items, floor: Number(floor) } : undefined
}

function readItem(line: string): SketchItem | undefined {
  const [, name, count, over, label] = /^(\S+) (\d+) (\d+)(?: ((?:[^\s%]|%[\dA-F]{2})+))?$/.exec(line) ?? []
  if (name === undefined) return undefined
  return { name, count: Number(count), over: Number(over), ...(label !== undefined && { label: decodeLabel(label) }) }
}

function decodeLabel(label: string): string {
  try {
    return decodeURIComponent(label)
  } catch {
    // It was cut in the middle of a character.
    return label
  }
}
