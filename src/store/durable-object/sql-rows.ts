import type { ObjectDatabase } from './limit-object.ts'
import type { Row, Rows } from './rows.ts'

/** The rows of one object, in its SQLite database. */
export class SqlRows implements Rows {
  readonly #sql: ObjectDatabase
  #isMade = false

  constructor(sql: ObjectDatabase) {
    this.#sql = sql
  }

  *all(): Generator<Row> {
    this.#isMade = [...this.#sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'kept'")].length > 0
    if (!this.#isMade) return
    for (const row of this.#sql.exec('SELECT kind, n, body FROM kept ORDER BY kind, n')) yield row as unknown as Row
  }

  put(kind: number, n: number, body: string): void {
    // An object that is only looked at keeps nothing.
    if (!this.#isMade) {
      this.#sql.exec(
        'CREATE TABLE IF NOT EXISTS kept (kind INTEGER, n INTEGER, body TEXT, PRIMARY KEY (kind, n)) WITHOUT ROWID',
      )
      this.#isMade = true
    }
    this.#sql.exec(
      'INSERT INTO kept (kind, n, body) VALUES (?, ?, ?) ON CONFLICT (kind, n) DO UPDATE SET body = excluded.body',
      kind,
      n,
      body,
    )
  }

  delete(kind: number, n: number): void {
    this.#sql.exec('DELETE FROM kept WHERE kind = ? AND n = ?', kind, n)
  }
}
