import { StoreError } from '../../model/store.ts'
import { Deadlines, TOO_LATE } from '../../runtime/deadlines.ts'
import type { Counts, Flush, Period, Resolution, StatisticsStore } from '../counters.ts'
import type { DocumentStore, DocumentWrite, Revision, StoredDocument, VersionId, Written } from '../documents.ts'
import {
  callObject,
  fromPlain,
  type ObjectNamespace,
  type PlainCount,
  type PlainPeriod,
  type TableCall,
  toPlain,
  unanswered,
} from './objects.ts'

interface CallOptions {
  readonly namespace: ObjectNamespace
  /** Deadline of a call. */
  readonly timeoutMs: number
}

/** A document in a Durable Object. A reading that finds nothing new is one request, which reads one row. */
export class ObjectDocuments implements DocumentStore {
  readonly #options: CallOptions & { readonly key: string }

  constructor(options: CallOptions & { readonly key: string }) {
    this.#options = options
  }

  async read(known?: VersionId): Promise<StoredDocument | undefined> {
    return (await this.#call<StoredDocument | null>('documents', 'read', known ?? null)) ?? undefined
  }

  async readVersion(version: number): Promise<StoredDocument | undefined> {
    return (await this.#call<StoredDocument | null>('documents', 'readVersion', version)) ?? undefined
  }

  history(): Promise<readonly Revision[]> {
    return this.#call('documents', 'history')
  }

  write(write: DocumentWrite): Promise<Written> {
    return this.#call('documents', 'write', write)
  }

  #call<T>(...sent: TableCall): Promise<T> {
    return callTable(this.#options, this.#options.key, sent)
  }
}

/** Counts of all isolates in a Durable Object: a flush is one request, which writes a row for each period and one for all. */
export class ObjectCounters implements StatisticsStore {
  readonly #options: CallOptions & { readonly keyPrefix: string }

  constructor(options: CallOptions & { readonly keyPrefix: string }) {
    this.#options = options
  }

  async add({ source, number, minutes }: Flush): Promise<void> {
    await this.#call('counters', 'add', { source, number, minutes: minutes.map(toPlain) })
  }

  async read(resolution: Resolution, fromMs: number, toMs: number): Promise<readonly Period[]> {
    const periods = await this.#call<PlainPeriod[]>('counters', 'read', resolution, fromMs, toMs)
    return periods.map(fromPlain)
  }

  async totals(): Promise<Counts> {
    return new Map(await this.#call<PlainCount[]>('counters', 'totals'))
  }

  #call<T>(...sent: TableCall): Promise<T> {
    return callTable(this.#options, `${this.#options.keyPrefix}:statistics`, sent)
  }
}

/** @throws {StoreError} whether it was carried out is then unknown */
async function callTable<T>({ namespace, timeoutMs }: CallOptions, name: string, sent: TableCall): Promise<T> {
  const calling = callObject(namespace, name, sent).catch(() => {
    throw unanswered()
  })
  const answer = await Deadlines.ofOne().within(timeoutMs, calling)
  if (answer === TOO_LATE) throw new StoreError('a Durable Object did not answer within the deadline')
  return answer as T
}
