/** What is asked of an object that keeps something other than the state of one key. All of it is plain data. */
import type { Flush, Period, Resolution } from '../../counters.ts'
import type { DocumentWrite, VersionId } from '../../documents.ts'
import type { Sketch } from '../../sketch.ts'

export type TableCall =
  | readonly ['documents', 'read', known: VersionId | null]
  | readonly ['documents', 'readVersion', version: number]
  | readonly ['documents', 'history']
  | readonly ['documents', 'write', DocumentWrite]
  | readonly ['counters', 'add', PlainFlush]
  | readonly ['counters', 'read', resolution: Resolution, fromMs: number, toMs: number]
  | readonly ['counters', 'totals']

/** Maps are lists: JSON has none. */
export interface PlainPeriod extends Pick<Period, 'startMs'> {
  readonly counts: readonly PlainCount[]
  readonly sketches: readonly (readonly [name: string, Sketch])[]
}

export type PlainCount = readonly [name: string, count: number]

export interface PlainFlush extends Omit<Flush, 'minutes'> {
  readonly minutes: readonly PlainPeriod[]
}

export function toPlain({ startMs, counts, sketches }: Period): PlainPeriod {
  return { startMs, counts: [...counts], sketches: [...sketches] }
}

export function fromPlain({ startMs, counts, sketches }: PlainPeriod): Period {
  return { startMs, counts: new Map(counts), sketches: new Map(sketches) }
}
