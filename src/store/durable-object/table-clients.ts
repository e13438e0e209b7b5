import { StoreError } from '../../model/store.ts'
import { Deadlines, TOO_LATE } from '../../runtime/deadlines.ts'
import type { Flush, Period, Resolution, Sketch, StatisticsStore } from '../counters.ts'
import type { DocumentStore, DocumentWrite, VersionId } from '../documents.ts'
import { callObject, createCallError, type ObjectNamespace } from './objects.ts'

/** Goes to an object that keeps a document or counts instead of the state of one key. */
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

interface CallOptions {
  readonly namespace: ObjectNamespace
  /** Deadline of a call. */
  readonly timeoutMs: number
}

/** A document in a Durable Object. A reading that finds nothing new is one request, which reads one row. */
export function openObjectDocuments({ key, ...options }: CallOptions & { readonly key: string }): DocumentStore {
  const call = <T>(...sent: TableCall) => callTable<T>(options, key, sent)
  return {
    read: (known) => call('documents', 'read', known ?? null),
    readVersion: (version) => call('documents', 'readVersion', version),
    history: () => call('documents', 'history'),
    write: (write) => call('documents', 'write', write),
  }
}

/** Counts of all isolates in a Durable Object: a flush is one request, which writes a row for each period and one for all. */
export function openObjectCounters({
  keyPrefix,
  ...options
}: CallOptions & { readonly keyPrefix: string }): StatisticsStore {
  const call = <T>(...sent: TableCall) => callTable<T>(options, `${keyPrefix}:statistics`, sent)
  return {
    add: (flush) => call('counters', 'add', { ...flush, minutes: flush.minutes.map(toPlain) }),
    read: async (...span) => (await call<PlainPeriod[]>('counters', 'read', ...span)).map(fromPlain),
    totals: async () => new Map(await call<PlainCount[]>('counters', 'totals')),
  }
}

/** @returns undefined for no answer. @throws {StoreError} whether it was carried out is then unknown */
async function callTable<T>({ namespace, timeoutMs }: CallOptions, name: string, sent: TableCall): Promise<T> {
  const calling = callObject(namespace, name, sent).catch(() => {
    throw createCallError()
  })
  const answer = await Deadlines.ofOne().within(timeoutMs, calling)
  if (answer === TOO_LATE) throw new StoreError('a Durable Object did not answer within the deadline')
  return (answer ?? undefined) as T
}
