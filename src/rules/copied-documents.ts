import { StoreError } from '../model/store.ts'
import type { Log } from '../runtime/log.ts'
import {
  type DocumentStore,
  type DocumentWrite,
  isSameVersion,
  NO_DOCUMENT,
  type Revision,
  type StoredDocument,
  updateDocument,
  type VersionId,
  type Written,
} from '../store/documents.ts'

/**
 * A document, and beside it a copy of its newest version in another place, which has version numbers of its own. Whoever
 * writes waits for the copy. Others' writes are copied after a reading. That the copy fails changes nothing: it is tried
 * again after the next one. Of many who copy at once, none puts an older version in place of a newer one.
 */
export class CopiedDocuments implements DocumentStore {
  readonly #documents: DocumentStore
  readonly #copy: DocumentStore
  readonly #log: Log
  /** The newest version that is known here; undefined before the first reading. */
  #newest: VersionId | undefined
  #copied: VersionId | undefined

  constructor(documents: DocumentStore, copy: DocumentStore, log: Log) {
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
      let newest: StoredDocument | undefined
      // What the copy holds is no newer than what is read after it.
      const written = await updateDocument(this.#copy, async (there) => {
        newest = (await this.#documents.read()) ?? NO_DOCUMENT
        const { text, by, why } = newest
        return newest.version === 0 || there.text === text ? undefined : { text, by, why, kept }
      })
      if (!newest?.version || written?.kind === 'conflict') return
      this.#newest = { version: newest.version, id: newest.id }
      this.#copied = this.#newest
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      this.#log('warn', { event: 'rules_uncopied', message: error.message })
    }
  }
}
