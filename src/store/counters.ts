import { mergeSketches, NO_SKETCH, type Sketch } from './sketch.ts'

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
