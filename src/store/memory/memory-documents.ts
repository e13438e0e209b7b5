import {
  cutNote,
  type Documents,
  type DocumentWrite,
  isSameVersion,
  KEPT_VERSIONS,
  NO_DOCUMENT,
  type Revision,
  refusalOf,
  type StoredDocument,
  type VersionId,
  type Written,
} from '../documents.ts'

/** A document in this process's memory. */
export class MemoryDocuments implements Documents {
  readonly #now: () => number
  /** Newest first. */
  #kept: readonly StoredDocument[] = []

  /** @param now milliseconds since the Unix epoch */
  constructor(now: () => number) {
    this.#now = now
  }

  async read(known?: VersionId): Promise<StoredDocument | undefined> {
    const newest = this.#newest
    return isSameVersion(newest, known) ? undefined : newest
  }

  async readVersion(version: number): Promise<StoredDocument | undefined> {
    return this.#kept.find((kept) => kept.version === version)
  }

  async history(): Promise<readonly Revision[]> {
    return this.#kept.map(({ version, id, atMs, by, why }) => ({ version, id, atMs, by, why }))
  }

  async write(write: DocumentWrite): Promise<Written> {
    const refusal = refusalOf(write, this.#newest)
    if (refusal) return refusal
    const { text, by, why, kept = KEPT_VERSIONS } = write
    const atMs = Math.floor(this.#now())
    const newest = { version: this.#newest.version + 1, id: crypto.randomUUID() }
    const written = { ...newest, atMs, by: cutNote(by), why: cutNote(why), text }
    this.#kept = [written, ...this.#kept].slice(0, kept)
    return { kind: 'written', ...newest, atMs }
  }

  get #newest(): StoredDocument {
    return this.#kept[0] ?? NO_DOCUMENT
  }
}
