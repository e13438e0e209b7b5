import type { ObjectDatabase } from './objects.ts'

/** Rows that an object keeps, each a text under a kind and a number. What is put is durable before any answer leaves. */
export interface Rows {
  /** In ascending order of kinds, then of numbers. */
  all(): Iterable<Row>
  get(kind: number, n: number): string | undefined
  put(kind: number, n: number, body: string): void
  delete(kind: number, n: number): void
}

export interface Row {
  readonly kind: number
  readonly n: number
  readonly body: string
}

/** The one row that each change writes. */
export const HEAD = 0
/** Older entries of a log, many to a row. */
export const LOG = 1
/** Older decisions, many to a row. */
export const DECISIONS = 2
/** One row for each slot. */
export const SLOTS = 3

/** The rows of one object, in its SQLite database. */
export class SqlRows implements Rows {
  readonly #sql: ObjectDatabase
  #hasTable = false

  constructor(sql: ObjectDatabase) {
    this.#sql = sql
  }

  *all(): Generator<Row> {
    this.#hasTable = [...this.#sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'kept'")].length > 0
    if (!this.#hasTable) return
    for (const row of this.#sql.exec('SELECT kind, n, body FROM kept ORDER BY kind, n')) yield row as unknown as Row
  }

  get(kind: number, n: number): string | undefined {
    const [row] = [...this.#sql.exec('SELECT body FROM kept WHERE kind = ? AND n = ?', kind, n)]
    return row?.body as string | undefined
  }

  put(kind: number, n: number, body: string): void {
    // An object that is only looked at keeps nothing.
    if (!this.#hasTable) {
      this.#sql.exec(
        'CREATE TABLE IF NOT EXISTS kept (kind INTEGER, n INTEGER, body TEXT, PRIMARY KEY (kind, n)) WITHOUT ROWID',
      )
      this.#hasTable = true
    }
    this.#sql.exec(
      'INSERT INTO kept (kind, n, body) VALUES (?, ?, ?) ON CONFLICT (kind, n) DO UPDATE SET body = excluded.body',
      ...[kind, n, body],
    )
  }

  delete(kind: number, n: number): void {
    this.#sql.exec('DELETE FROM kept WHERE kind = ? AND n = ?', kind, n)
  }
}
