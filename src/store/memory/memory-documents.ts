import {
  cutNote,
  type Documents,
  type DocumentWrite,
  KEPT_VERSIONS,
  NO_DOCUMENT,
  type Revision,
  refusalOf,
  type StoredDocument,
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

  async read(knownVersion?: number): Promise<StoredDocument | undefined> {
    const newest = this.#newest
    return newest.version === knownVersion ? undefined : newest
  }

  async readVersion(version: number): Promise<StoredDocument | undefined> {
    return this.#kept.find((kept) => kept.version === version)
  }

  async history(): Promise<readonly Revision[]> {
    return this.#kept.map(({ version, atMs, by, why }) => ({ version, atMs, by, why }))
  }

  async write(write: DocumentWrite): Promise<Written> {
    const { version } = this.#newest
    const refusal = refusalOf(write, version)
    if (refusal) return refusal
    const { text, by, why, kept = KEPT_VERSIONS } = write
    const atMs = Math.floor(this.#now())
    const written = { version: version + 1, atMs, by: cutNote(by), why: cutNote(why), text }
    this.#kept = [written, ...this.#kept].slice(0, kept)
    return { kind: 'written', version: written.version, atMs }
  }

  get #newest(): StoredDocument {
    return this.#kept[0] ?? NO_DOCUMENT
  }
}
