/** The interface of a store of statistics, and how periods are added up. */
import { mergeSketches, NO_SKETCH, type Sketch } from './sketches.ts'

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
