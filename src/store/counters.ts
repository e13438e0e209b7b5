/** How finely counts are kept, each for as long as `KEPT_MS` says. */
export type Resolution = 'minute' | 'hour'

export const PERIOD_MS: Readonly<Record<Resolution, number>> = { minute: 60_000, hour: 3_600_000 }

/** How long counts can be read after the end of their period, in milliseconds. */
export const KEPT_MS: Readonly<Record<Resolution, number>> = { minute: 2 * 3_600_000, hour: 30 * 86_400_000 }

/** How long the sums of everything can be read after the last that was added, in milliseconds. */
export const TOTALS_KEPT_MS = 31 * 86_400_000

/** Names that a sketch keeps at most. */
export const SKETCH_CAPACITY = 50

/** Integers from 0, by name. Names have no line breaks. */
export type Counts = ReadonlyMap<string, number>

/** What was counted in one minute, or in one hour. */
export interface Period {
  /** Milliseconds since the Unix epoch, a multiple of the period's length. */
  readonly startMs: number
  readonly counts: Counts
  /** By name. */
  readonly sketches: ReadonlyMap<string, Sketch>
}

/** What one source has counted since its last flush. */
export interface Flush {
  /** Tells whose it is: random, letters and digits. */
  readonly source: string
  /** From 1, and above those of the source's flushes before. */
  readonly number: number
  /** At least one, and each minute once. */
  readonly minutes: readonly Period[]
}

/**
 * Where counts of all isolates come together: by minute, by hour and in all. What is kept must be bounded by what is
 * counted: the names are few, whoever calls.
 */
export interface StatisticsStore {
  /**
   * Adds a flush. One that was added before changes nothing, so it may be repeated within an hour after it was first
   * sent, if meanwhile no other one of its source is.
   * @throws {StoreError} whether it was added is then unknown
   */
  add(flush: Flush): Promise<void>
  /**
   * The periods that have a part between these moments, in milliseconds since the Unix epoch, and in which something was
   * counted; the earliest first.
   * @throws {StoreError}
   */
  read(resolution: Resolution, fromMs: number, toMs: number): Promise<readonly Period[]>
  /**
   * Everything counted so far. It begins anew after a month in which nothing was counted.
   * @throws {StoreError}
   */
  totals(): Promise<Counts>
}

/** The start of the period that holds this moment. */
export function findPeriodStart(resolution: Resolution, atMs: number): number {
  return Math.floor(atMs / PERIOD_MS[resolution]) * PERIOD_MS[resolution]
}

/** A period that is still counted. */
export interface MutablePeriod extends Period {
  readonly counts: Map<string, number>
  readonly sketches: Map<string, Sketch>
}

/** Adds what was counted in a part of a period. */
export function addTo(period: MutablePeriod, { counts, sketches }: Period): void {
  addCounts(period.counts, counts)
  for (const [name, sketch] of sketches) {
    period.sketches.set(name, mergeSketches(period.sketches.get(name) ?? NO_SKETCH, sketch, SKETCH_CAPACITY))
  }
}

export function addCounts(sums: Map<string, number>, counts: Counts): void {
  for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count)
}

/**
 * What was seen most often, in bounded space: a summary as Space-Saving keeps it (Metwally, Agrawal and El Abbadi,
 * "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005), merged as in Cafaro, Pulimeno and
 * Tempesta, "A parallel Space Saving algorithm for frequent items", 2016. Twin of `lua/counters/merge-sketches.lua`.
 *
 * Of n events, each name in a sketch of k names was seen at most `count` times and at least `count - over` times, and no
 * name that is missing more than `floor` times; neither `over` nor `floor` exceeds n/k, however many sketches of at least
 * k names were merged.
 */
export interface Sketch {
  /** The most frequent first. */
  readonly items: readonly SketchItem[]
  /** How often a name that is not among the items may have been seen at most. */
  readonly floor: number
}

export interface SketchItem {
  /** Without white space, of ASCII. */
  readonly name: string
  /** How often it was seen at most. */
  readonly count: number
  /** By how much that may be too much. */
  readonly over: number
  /** For people to read; the latest one that was not empty. */
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
  return truncated(merged, one.floor + other.floor, capacity)
}

/** The most frequent of these. */
export function truncated(items: SketchItem[], floor: number, capacity: number): Sketch {
  items.sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1))
  const [leftOut] = items.splice(capacity)
  return { items, floor: Math.max(floor, leftOut?.count ?? 0) }
}

/** As it is kept in Redis: the floor, then a line for each item, all without secrets or white space within a value. */
export function writeSketch({ items, floor }: Sketch): string {
  const lines = items.map(({ name, count, over, label }) => {
    return `\n${name} ${count} ${over}${label === undefined ? '' : ` ${encodeURIComponent(label)}`}`
  })
  return `${floor}${lines.join('')}`
}

/** @returns undefined if that is not what `writeSketch` writes */
export function readSketch(text: string): Sketch | undefined {
  const [floor = '', ...lines] = text.split('\n')
  const items = lines.map(readItem)
  return /^\d+$/.test(floor) && items.every((item) => item !== undefined) ? { items, floor: Number(floor) } : undefined
}

function readItem(line: string): SketchItem | undefined {
  const [, name, count, over, label] = /^(\S+) (\d+) (\d+)(?: ((?:[^\s%]|%[\dA-F]{2})+))?$/.exec(line) ?? []
  if (name === undefined) return undefined
  return { name, count: Number(count), over: Number(over), ...(label !== undefined && { label: decoded(label) }) }
}

/** As it is, if it was cut in the middle of a character. */
function decoded(label: string): string {
  try {
    return decodeURIComponent(label)
  } catch {
    return label
  }
}
