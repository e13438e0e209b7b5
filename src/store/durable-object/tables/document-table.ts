import {
  cutNote,
  type DocumentWrite,
  isSameVersion,
  KEPT_VERSIONS,
  NO_DOCUMENT,
  type Revision,
  refusalOf,
  type StoredDocument,
  type VersionId,
  type Written,
} from '../../documents.ts'
import type { ObjectDatabase } from '../limit-object.ts'
import { hasTable } from './has-table.ts'

/** The document that an object keeps, in its SQLite database: a row for each version. */
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
      `SELECT version, ${this.#id()}, atMs, "by", why, text FROM documents WHERE version = ?`,
      version,
    )
    return row ?? null
  }

  history(): readonly Revision[] {
    return this.#rows(`SELECT version, ${this.#id()}, atMs, "by", why FROM documents ORDER BY version DESC`)
  }

  write(write: DocumentWrite, nowMs: number): Written {
    const newest = this.#newest()
    const refusal = refusalOf(write, newest)
    if (refusal) return refusal
    const version = newest.version + 1
    const id = crypto.randomUUID()
    this.#sql.exec(
      'CREATE TABLE IF NOT EXISTS documents (version INTEGER PRIMARY KEY, atMs INTEGER, "by" TEXT, why TEXT, text TEXT, id TEXT)',
    )
    if (!this.#hasIds()) this.#sql.exec('ALTER TABLE documents ADD COLUMN id TEXT')
    this.#sql.exec(
      'INSERT INTO documents (version, atMs, "by", why, text, id) VALUES (?, ?, ?, ?, ?, ?)',
      ...[version, nowMs, cutNote(write.by), cutNote(write.why), write.text, id],
    )
    this.#sql.exec('DELETE FROM documents WHERE version <= ?', version - (write.kept ?? KEPT_VERSIONS))
    return { kind: 'written', version, id, atMs: nowMs }
  }

  #newest(): VersionId {
    const [row] = this.#rows<VersionId>(`SELECT version, ${this.#id()} FROM documents ORDER BY version DESC LIMIT 1`)
    return row ?? NO_DOCUMENT
  }

  /** The column, also where the table is one of before there were ids. */
  #id(): string {
    return this.#hasIds() ? "coalesce(id, '') AS id" : "'' AS id"
  }

  #hasIds(): boolean {
    const found = this.#sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'documents' AND sql LIKE '%, id TEXT%'")
    return [...found].length > 0
  }

  /** An object that is only looked at keeps nothing. */
  #rows<Row>(query: string, ...values: number[]): Row[] {
    return hasTable(this.#sql, 'documents') ? ([...this.#sql.exec(query, ...values)] as Row[]) : []
  }
}
