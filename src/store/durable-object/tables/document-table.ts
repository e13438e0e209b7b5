import {
  cutNote,
  type DocumentWrite,
  KEPT_VERSIONS,
  NO_DOCUMENT,
  type Revision,
  refusalOf,
  type StoredDocument,
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
  read(knownVersion: number | null): StoredDocument | null {
    const version = this.#newestVersion()
    if (version === knownVersion) return null
    return this.readVersion(version) ?? NO_DOCUMENT
  }

  /** @returns null if that version is not kept */
  readVersion(version: number): StoredDocument | null {
    const [row] = this.#rows<StoredDocument>(
      'SELECT version, atMs, "by", why, text FROM documents WHERE version = ?',
      version,
    )
    return row ?? null
  }

  history(): readonly Revision[] {
    return this.#rows('SELECT version, atMs, "by", why FROM documents ORDER BY version DESC')
  }

  write(write: DocumentWrite, nowMs: number): Written {
    const newest = this.#newestVersion()
    const refusal = refusalOf(write, newest)
    if (refusal) return refusal
    const version = newest + 1
    this.#sql.exec(
      'CREATE TABLE IF NOT EXISTS documents (version INTEGER PRIMARY KEY, atMs INTEGER, "by" TEXT, why TEXT, text TEXT)',
    )
    this.#sql.exec(
      'INSERT INTO documents (version, atMs, "by", why, text) VALUES (?, ?, ?, ?, ?)',
      ...[version, nowMs, cutNote(write.by), cutNote(write.why), write.text],
    )
    this.#sql.exec('DELETE FROM documents WHERE version <= ?', version - (write.kept ?? KEPT_VERSIONS))
    return { kind: 'written', version, atMs: nowMs }
  }

  /** 0 if there is none. */
  #newestVersion(): number {
    const [row] = this.#rows<Pick<Revision, 'version'>>('SELECT version FROM documents ORDER BY version DESC LIMIT 1')
    return row?.version ?? 0
  }

  /** An object that is only looked at keeps nothing. */
  #rows<Row>(query: string, ...values: number[]): Row[] {
    return hasTable(this.#sql, 'documents') ? ([...this.#sql.exec(query, ...values)] as Row[]) : []
  }
}
