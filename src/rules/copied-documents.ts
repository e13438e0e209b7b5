import { StoreError } from '../model/store.ts'
import type { Log } from '../runtime/log.ts'
import {
  type Documents,
  type DocumentWrite,
  isSameVersion,
  NO_DOCUMENT,
  type Revision,
  type StoredDocument,
  type VersionId,
  type Written,
} from '../store/documents.ts'

/** Each loses only to one that succeeds. */
const MOST_TRIES = 10

/**
 * A document, and beside it a copy of its newest version in another place, which has version numbers of its own. Whoever
 * writes waits for the copy. Others' writes are copied after a reading. That the copy fails changes nothing: it is tried
 * again after the next one. Of many who copy at once, none puts an older version in place of a newer one.
 */
export class CopiedDocuments implements Documents {
  readonly #documents: Documents
  readonly #copy: Documents
  readonly #log: Log
  /** The newest version that is known here; undefined before the first reading. */
  #newest: VersionId | undefined
  #copied: VersionId | undefined

  constructor(documents: Documents, copy: Documents, log: Log) {
    this.#documents = documents
    this.#copy = copy
    this.#log = log
  }

  async read(known?: VersionId): Promise<StoredDocument | undefined> {
    const read = await this.#documents.read(known)
    if (read) this.#newest = read
    return read
  }

  async afterRead(): Promise<void> {
    if (!isSameVersion(this.#newest, this.#copied)) await this.#copyNewest()
  }

  readVersion(version: number): Promise<StoredDocument | undefined> {
    return this.#documents.readVersion(version)
  }

  history(): Promise<readonly Revision[]> {
    return this.#documents.history()
  }

  async write(write: DocumentWrite): Promise<Written> {
    const written = await this.#documents.write(write)
    if (written.kind === 'written') {
      this.#newest = written
      await this.#copyNewest(write.kept)
    }
    return written
  }

  async #copyNewest(kept?: number): Promise<void> {
    // Where nothing was ever written, the copy may be all there is.
    if (!this.#newest?.version) return
    try {
      for (let tries = 0; tries < MOST_TRIES; tries++) {
        // In this order: what the copy holds is then no newer than what is read after it.
        const there = (await this.#copy.read()) ?? NO_DOCUMENT
        const { version, id, text, by, why } = (await this.#documents.read()) ?? NO_DOCUMENT
        if (version === 0) return
        const write = { text, expectedVersion: there.version, expectedId: there.id, by, why, kept }
        if (there.text !== text && (await this.#copy.write(write)).kind === 'conflict') continue
        this.#newest = { version, id }
        this.#copied = this.#newest
        return
      }
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      this.#log('warn', { event: 'rules_uncopied', message: error.message })
    }
  }
}
