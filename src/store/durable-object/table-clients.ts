import { StoreError } from '../../model/store.ts'
import { Deadlines, TOO_LATE } from '../../runtime/deadlines.ts'
import type { StatisticsStore } from '../counters.ts'
import type { DocumentStore, StoredDocument } from '../documents.ts'
import {
  callObject,
  createCallError,
  fromPlain,
  type ObjectNamespace,
  type PlainCount,
  type PlainPeriod,
  type TableCall,
  toPlain,
} from './objects.ts'

interface CallOptions {
  readonly namespace: ObjectNamespace
  /** Deadline of a call. */
  readonly timeoutMs: number
}

/** A document in a Durable Object. A reading that finds nothing new is one request, which reads one row. */
export function openObjectDocuments({ key, ...options }: CallOptions & { readonly key: string }): DocumentStore {
  const call = <T>(...sent: TableCall): Promise<T> => callTable(options, key, sent)
  return {
    read: async (known) => (await call<StoredDocument | null>('documents', 'read', known ?? null)) ?? undefined,
    readVersion: async (version) =>
      (await call<StoredDocument | null>('documents', 'readVersion', version)) ?? undefined,
    history: () => call('documents', 'history'),
    write: (write) => call('documents', 'write', write),
  }
}

/** Counts of all isolates in a Durable Object: a flush is one request, which writes a row for each period and one for all. */
export function openObjectCounters({
  keyPrefix,
  ...options
}: CallOptions & { readonly keyPrefix: string }): StatisticsStore {
  const call = <T>(...sent: TableCall): Promise<T> => callTable(options, `${keyPrefix}:statistics`, sent)
  return {
    async add({ source, number, minutes }) {
      await call('counters', 'add', { source, number, minutes: minutes.map(toPlain) })
    },
    async read(resolution, fromMs, toMs) {
      return (await call<PlainPeriod[]>('counters', 'read', resolution, fromMs, toMs)).map(fromPlain)
    },
    totals: async () => new Map(await call<PlainCount[]>('counters', 'totals')),
  }
}

/** @throws {StoreError} whether it was carried out is then unknown */
async function callTable<T>({ namespace, timeoutMs }: CallOptions, name: string, sent: TableCall): Promise<T> {
  const calling = callObject(namespace, name, sent).catch(() => {
    throw createCallError()
  })
  const answer = await Deadlines.ofOne().within(timeoutMs, calling)
  if (answer === TOO_LATE) throw new StoreError('a Durable Object did not answer within the deadline')
  return answer as T
}
