import type { Log } from '../decide/log.ts'
import {
  type Documents,
  type DocumentWrite,
  NO_DOCUMENT,
  type Revision,
  type StoredDocument,
  type Written,
} from '../store/documents.ts'
import { StoreError } from '../store/store.ts'

/**
 * A document, and beside it a copy of its newest version in another place, which has version numbers of its own. Whoever
 * writes waits for the copy. Others' writes are copied after a reading. That the copy fails changes nothing: it is tried
 * again after the next one.
 */
export class CopiedDocuments implements Documents {
  readonly #documents: Documents
  readonly #copy: Documents
  readonly #log: Log
  #newest: StoredDocument | undefined
  #copiedVersion: number | undefined

  constructor(documents: Documents, copy: Documents, log: Log) {
    this.#documents = documents
    this.#copy = copy
    this.#log = log
  }

  async read(knownVersion?: number): Promise<StoredDocument | undefined> {
    const read = await this.#documents.read(knownVersion)
    if (read) this.#newest = read
    return read
  }

  async afterRead(): Promise<void> {
    if (this.#newest?.version !== this.#copiedVersion) await this.#copyNewest()
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
      const { text, by, why } = write
      this.#newest = { version: written.version, atMs: written.atMs, by, why, text }
      await this.#copyNewest(write.kept)
    }
    return written
  }

  async #copyNewest(kept?: number): Promise<void> {
    // Where nothing was ever written, the copy may be all there is.
    if (!this.#newest || this.#newest.version === 0) return
    const { version, by, why, text } = this.#newest
    try {
      const there = (await this.#copy.read()) ?? NO_DOCUMENT
      // If somebody else was faster, what that one has written is copied as well.
      if (there.text !== text) await this.#copy.write({ text, expectedVersion: there.version, by, why, kept })
      this.#copiedVersion = version
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      this.#log('warn', { event: 'rules_uncopied', message: error.message })
    }
  }
}
