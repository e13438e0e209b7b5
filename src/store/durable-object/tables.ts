import {
  addCounts,
  addTo,
  findPeriodStart,
  KEPT_MS,
  type MutablePeriod,
  PERIOD_MS,
  type Resolution,
  TOTALS_KEPT_MS,
} from '../counters.ts'
import {
  checkWrite,
  cutNote,
  type DocumentWrite,
  isSameVersion,
  KEPT_VERSIONS,
  NO_DOCUMENT,
  type Revision,
  type StoredDocument,
  type VersionId,
  type Written,
} from '../documents.ts'
import {
  fromPlain,
  hasTable,
  type ObjectDatabase,
  type PlainCount,
  type PlainFlush,
  type PlainPeriod,
  type TableCall,
  toPlain,
} from './objects.ts'

/** Answers for an object that keeps a document or counts. @returns null for no answer */
export function callTable(call: TableCall, sql: ObjectDatabase, nowMs: number): unknown {
  if (call[0] === 'documents') {
    const documents = new DocumentTable(sql)
    switch (call[1]) {
      case 'read':
        return documents.read(call[2])
      case 'readVersion':
        return documents.readVersion(call[2])
      case 'history':
        return documents.history()
      case 'write':
        return documents.write(call[2], nowMs)
    }
  }
  const counters = new CounterTable(sql, nowMs)
  switch (call[1]) {
    case 'add':
      return counters.add(call[2])
    case 'read':
      return counters.read(call[2], call[3], call[4])
    case 'totals':
      return counters.totals()
  }
}

/** A document in the SQLite database of an object: a row for each version. */
export class DocumentTable {
  readonly #sql: ObjectDatabase

  constructor(sql: ObjectDatabase) {
    this.#sql = sql
  }

  /** @returns null if the newest version is the known one */
  read(known: VersionId | null): StoredDocument | null {
    const newest = this.#newest()
    if (isSameVersion(newest, known ?? undefined)) return null
    return this.readVersion(newest.version) ?? NO_DOCUMENT
  }

  /** @returns null if that version is not kept */
  readVersion(version: number): StoredDocument | null {
    const [row] = this.#rows<StoredDocument>(
      `SELECT version, ${this.#id()}, atMs, "by" AS actor, why AS comment, text FROM documents WHERE version = ?`,
      version,
    )
    return row ?? null
  }

  history(): readonly Revision[] {
    return this.#rows(
      `SELECT version, ${this.#id()}, atMs, "by" AS actor, why AS comment FROM documents ORDER BY version DESC`,
    )
  }

  write(write: DocumentWrite, nowMs: number): Written {
    const newest = this.#newest()
    const refusal = checkWrite(write, newest)
    if (refusal) return refusal
    const version = newest.version + 1
    const id = crypto.randomUUID()
    this.#sql.exec(
      'CREATE TABLE IF NOT EXISTS documents (version INTEGER PRIMARY KEY, atMs INTEGER, "by" TEXT, why TEXT, text TEXT, id TEXT)',
    )
    if (!this.#hasIds()) this.#sql.exec('ALTER TABLE documents ADD COLUMN id TEXT')
    this.#sql.exec(
      'INSERT INTO documents (version, atMs, "by", why, text, id) VALUES (?, ?, ?, ?, ?, ?)',
      ...[version, nowMs, cutNote(write.actor), cutNote(write.comment), write.text, id],
    )
    this.#sql.exec('DELETE FROM documents WHERE version <= ?', version - (write.kept ?? KEPT_VERSIONS))
    return { kind: 'written', version, id, atMs: nowMs }
  }

  #newest(): VersionId {
    const [row] = this.#rows<VersionId>(`SELECT version, ${this.#id()} FROM documents ORDER BY version DESC LIMIT 1`)
    return row ?? NO_DOCUMENT
  }

  /** The table may be older than ids. */
  #id(): string {
    return this.#hasIds() ? "coalesce(id, '') AS id" : "'' AS id"
  }

  #hasIds(): boolean {
    const found = this.#sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'documents' AND sql LIKE '%, id TEXT%'")
    return [...found].length > 0
  }

  #rows<Row>(query: string, ...values: number[]): Row[] {
    return selectRows(this.#sql, 'documents', query, ...values)
  }
}

/** A flush that comes again within this time after it was sent is recognized. */
const KNOWN_FOR_MS = 2 * 3_600_000

interface Body extends Omit<PlainPeriod, 'startMs'> {
  /** A minute has the number of the last flush of each source that began with it. */
  readonly added?: readonly PlainCount[]
}

interface Kept extends MutablePeriod {
  readonly added: Map<string, number>
}

/** One row, which starts at 0, holds all that was ever counted. */
const TOTALS = 'total'

/**
 * Counts in the SQLite database of an object: a row for each minute and hour, and one for all. A flush rewrites those
 * of its minutes and hours, however much it holds.
 */
export class CounterTable {
  readonly #sql: ObjectDatabase
  readonly #nowMs: number

  constructor(sql: ObjectDatabase, nowMs: number) {
    this.#sql = sql
    this.#nowMs = nowMs
  }

  add({ source, number, minutes }: PlainFlush): null {
    const [first] = minutes
    if (!first || number <= (this.#readPeriod('minute', first.startMs).added.get(source) ?? 0)) return null
    this.#sql.exec(
      'CREATE TABLE IF NOT EXISTS counted (period TEXT, startMs INTEGER, expiresAtMs INTEGER, body TEXT, PRIMARY KEY (period, startMs)) WITHOUT ROWID',
    )
    const hours = new Map<number, Kept>()
    const totals = this.#readPeriod(TOTALS, 0)
    for (const plain of minutes) {
      const more = fromPlain(plain)
      const minute = this.#readPeriod('minute', more.startMs)
      addTo(minute, more)
      if (plain === first) minute.added.set(source, number)
      this.#writePeriod('minute', minute)
      const hourMs = findPeriodStart('hour', more.startMs)
      const hour = hours.get(hourMs) ?? this.#readPeriod('hour', hourMs)
      hours.set(hourMs, hour)
      addTo(hour, more)
      addCounts(totals.counts, more.counts)
    }
    for (const hour of hours.values()) this.#writePeriod('hour', hour)
    this.#writePeriod(TOTALS, totals)
    return null
  }

  read(resolution: Resolution, fromMs: number, toMs: number): PlainPeriod[] {
    const rows = this.#rows<{ readonly startMs: number; readonly body: string }>(
      'SELECT startMs, body FROM counted WHERE period = ? AND startMs > ? AND startMs < ? AND expiresAtMs >= ? ORDER BY startMs',
      ...[resolution, fromMs - PERIOD_MS[resolution], toMs, this.#nowMs],
    )
    return rows.map(({ startMs, body }) => {
      const { counts, sketches } = JSON.parse(body) as Body
      return { startMs, counts, sketches }
    })
  }

  totals(): PlainCount[] {
    return [...this.#readPeriod(TOTALS, 0).counts]
  }

  /** @returns the time at which there is more to delete; undefined if nothing is left */
  sweep(): number | undefined {
    this.#sql.exec('DELETE FROM counted WHERE expiresAtMs < ?', this.#nowMs)
    const [row] = this.#rows<{ readonly atMs: number | null }>('SELECT MIN(expiresAtMs) AS atMs FROM counted')
    return row?.atMs ?? undefined
  }

  #readPeriod(period: Resolution | typeof TOTALS, startMs: number): Kept {
    const [row] = this.#rows<{ readonly body: string }>(
      'SELECT body FROM counted WHERE period = ? AND startMs = ? AND expiresAtMs >= ?',
      ...[period, startMs, this.#nowMs],
    )
    const { counts, sketches, added }: Body = row ? JSON.parse(row.body) : { counts: [], sketches: [] }
    return { startMs, counts: new Map(counts), sketches: new Map(sketches), added: new Map(added) }
  }

  #writePeriod(period: Resolution | typeof TOTALS, kept: Kept): void {
    const { startMs, ...rest } = toPlain(kept)
    const body: Body = kept.added.size > 0 ? { ...rest, added: [...kept.added] } : rest
    this.#sql.exec(
      'INSERT INTO counted (period, startMs, expiresAtMs, body) VALUES (?, ?, ?, ?) ON CONFLICT (period, startMs) DO UPDATE SET expiresAtMs = excluded.expiresAtMs, body = excluded.body',
      ...[period, startMs, this.#expiresAtMs(period, startMs), JSON.stringify(body)],
    )
  }

  #expiresAtMs(period: Resolution | typeof TOTALS, startMs: number): number {
    if (period === TOTALS) return this.#nowMs + TOTALS_KEPT_MS
    return Math.max(startMs + PERIOD_MS[period] + KEPT_MS[period], this.#nowMs + KNOWN_FOR_MS)
  }

  #rows<Row>(query: string, ...values: (string | number)[]): Row[] {
    return selectRows(this.#sql, 'counted', query, ...values)
  }
}

/** An object that is only read has no table, and keeps nothing. */
function selectRows<Row>(sql: ObjectDatabase, table: string, query: string, ...values: (string | number)[]): Row[] {
  return hasTable(sql, table) ? ([...sql.exec(query, ...values)] as Row[]) : []
}
