/** Documents and statistics in Durable Objects. */
import {
  addFlush,
  type Flush,
  findExpiry,
  type KeptPeriod,
  PERIOD_MS,
  type Period,
  type Resolution,
  type StatisticsStore,
} from '../counters.ts'
import {
  createNextVersion,
  type DocumentStore,
  type DocumentWrite,
  isSameVersion,
  KEPT_VERSIONS,
  NO_DOCUMENT,
  type Revision,
  type StoredDocument,
  type VersionId,
  type Written,
} from '../documents.ts'
import type { Sketch } from '../sketches.ts'
import { callObject, callWithin, hasTable, type ObjectDatabase, type ObjectNamespace, select } from './objects.ts'

/** A table's method and its arguments, for an object that keeps a document or counts instead of one key's state. */
export type TableCall = readonly [table: 'documents' | 'counters', method: string, ...args: unknown[]]

/** Maps are lists: JSON has none. */
interface PlainPeriod extends Pick<Period, 'startMs'> {
  readonly counts: readonly PlainCount[]
  readonly sketches: readonly (readonly [name: string, Sketch])[]
}

type PlainCount = readonly [name: string, count: number]

interface PlainFlush extends Omit<Flush, 'minutes'> {
  readonly minutes: readonly PlainPeriod[]
}

export function toPlain({ startMs, counts, sketches }: Period): PlainPeriod {
  return { startMs, counts: [...counts], sketches: [...sketches] }
}

function fromPlain({ startMs, counts, sketches }: PlainPeriod) {
  return { startMs, counts: new Map(counts), sketches: new Map(sketches) }
}

interface CallOptions {
  readonly namespace: ObjectNamespace
  /** Deadline of a call. */
  readonly timeoutMs: number
}

/** A document in a Durable Object. A reading that finds nothing new is one request, which reads one row. */
export function openObjectDocuments({ key, ...options }: CallOptions & { readonly key: string }): DocumentStore {
  const ask = connect(options, key, 'documents')
  return {
    read: (known) => ask('read', known ?? null),
    readVersion: (version) => ask('readVersion', version),
    readHistory: () => ask('readHistory'),
    write: (write) => ask('write', write),
  }
}

/** Counts of all isolates in a Durable Object: a flush is one request, which writes a row for each period and one for all. */
export function openObjectCounters({
  keyPrefix,
  ...options
}: CallOptions & { readonly keyPrefix: string }): StatisticsStore {
  const ask = connect(options, `${keyPrefix}:statistics`, 'counters')
  return {
    add: (flush) => ask('add', { ...flush, minutes: flush.minutes.map(toPlain) }),
    read: async (...span) => (await ask<PlainPeriod[]>('read', ...span)).map(fromPlain),
    readTotals: async () => new Map(await ask<PlainCount[]>('readTotals')),
  }
}

function connect({ namespace, timeoutMs }: CallOptions, name: string, table: TableCall[0]) {
  return async <T>(method: keyof DocumentTable | keyof CounterTable, ...args: unknown[]): Promise<T> => {
    const sent: TableCall = [table, method, ...args]
    return ((await callWithin(timeoutMs, callObject(namespace, name, sent))) ?? undefined) as T
  }
}

/** Answers for an object that keeps a document or counts. @returns null for no answer */
export function callTable([table, method, ...args]: TableCall, sql: ObjectDatabase, nowMs: number): unknown {
  const opened = table === 'documents' ? openDocumentTable(sql, nowMs) : openCounterTable(sql, nowMs)
  const methods = opened as Record<string, (...args: never[]) => unknown>
  return methods[method]?.(...(args as never[])) ?? null
}

type Select = <Row>(query: string, ...values: (string | number)[]) => Row[]

/** Reads a table, which is not created before something is written. */
function createSelect(sql: ObjectDatabase, table: string): Select {
  return (query, ...values) => (hasTable(sql, table) ? select(sql, query, ...values) : [])
}

type DocumentTable = ReturnType<typeof openDocumentTable>

/** A document: a row for each version. */
function openDocumentTable(sql: ObjectDatabase, nowMs: number) {
  const select = createSelect(sql, 'versions')
  const readNewest = () =>
    select<VersionId>('SELECT version, id FROM versions ORDER BY version DESC LIMIT 1')[0] ?? NO_DOCUMENT
  const readVersion = (version: number): StoredDocument | undefined =>
    select<StoredDocument>('SELECT * FROM versions WHERE version = ?', version)[0]
  return {
    readVersion,

    /** @returns undefined if the newest version is the known one */
    read(known: VersionId | null): StoredDocument | undefined {
      const newest = readNewest()
      if (isSameVersion(newest, known ?? undefined)) return undefined
      return readVersion(newest.version) ?? NO_DOCUMENT
    },

    readHistory(): readonly Revision[] {
      return select('SELECT version, id, atMs, actor, comment FROM versions ORDER BY version DESC')
    },

    write(write: DocumentWrite): Written {
      const next = createNextVersion(write, readNewest(), nowMs)
      if ('kind' in next) return next
      const { version, id, atMs, actor, comment, text } = next
      sql.exec(
        'CREATE TABLE IF NOT EXISTS versions (version INTEGER PRIMARY KEY, id TEXT, atMs INTEGER, actor TEXT, comment TEXT, text TEXT)',
      )
      sql.exec('INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)', version, id, atMs, actor, comment, text)
      sql.exec('DELETE FROM versions WHERE version <= ?', version - (write.kept ?? KEPT_VERSIONS))
      return { kind: 'written', version, id, atMs }
    },
  }
}

interface Body extends Omit<PlainPeriod, 'startMs'> {
  readonly added?: readonly PlainCount[]
}

type CounterTable = ReturnType<typeof openCounterTable>

/** Counts: a row for each minute and hour, and one for all. A flush rewrites those, however much it holds. */
export function openCounterTable(sql: ObjectDatabase, nowMs: number) {
  const select = createSelect(sql, 'counted')

  function readPeriod(period: KeptPeriod['period'], startMs: number): KeptPeriod | undefined {
    const [row] = select<{ readonly body: string }>(
      'SELECT body FROM counted WHERE period = ? AND startMs = ? AND expiresAtMs >= ?',
      ...[period, startMs, nowMs],
    )
    if (!row) return undefined
    const { added, ...plain }: Body = JSON.parse(row.body)
    return { period, ...fromPlain({ startMs, ...plain }), added: new Map(added) }
  }

  function writePeriod(kept: KeptPeriod): void {
    const { startMs, ...rest } = toPlain(kept)
    const body: Body = kept.added.size > 0 ? { ...rest, added: [...kept.added] } : rest
    sql.exec(
      'INSERT INTO counted (period, startMs, expiresAtMs, body) VALUES (?, ?, ?, ?) ON CONFLICT (period, startMs) DO UPDATE SET expiresAtMs = excluded.expiresAtMs, body = excluded.body',
      ...[kept.period, startMs, findExpiry(kept, nowMs), JSON.stringify(body)],
    )
  }

  return {
    add({ minutes, ...flush }: PlainFlush): void {
      const changed = addFlush({ ...flush, minutes: minutes.map(fromPlain) }, readPeriod)
      if (changed.length === 0) return
      sql.exec(
        'CREATE TABLE IF NOT EXISTS counted (period TEXT, startMs INTEGER, expiresAtMs INTEGER, body TEXT, PRIMARY KEY (period, startMs)) WITHOUT ROWID',
      )
      for (const period of changed) writePeriod(period)
    },

    read(resolution: Resolution, fromMs: number, toMs: number): PlainPeriod[] {
      const rows = select<{ readonly startMs: number; readonly body: string }>(
        'SELECT startMs, body FROM counted WHERE period = ? AND startMs > ? AND startMs < ? AND expiresAtMs >= ? ORDER BY startMs',
        ...[resolution, fromMs - PERIOD_MS[resolution], toMs, nowMs],
      )
      return rows.map(({ startMs, body }) => {
        const { counts, sketches } = JSON.parse(body) as Body
        return { startMs, counts, sketches }
      })
    },

    readTotals: (): PlainCount[] => [...(readPeriod('total', 0)?.counts ?? [])],

    /** @returns the time at which there is more to delete; undefined if nothing is left */
    sweep(): number | undefined {
      sql.exec('DELETE FROM counted WHERE expiresAtMs < ?', nowMs)
      const [row] = select<{ readonly atMs: number | null }>('SELECT MIN(expiresAtMs) AS atMs FROM counted')
      return row?.atMs ?? undefined
    },
  }
}
