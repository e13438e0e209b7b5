/** What tells a version from all others. */
export interface VersionId {
  /** 1 is the first; each write makes the next. */
  readonly version: number
  /**
   * Random, since versions can be lost: others that are then written have the same numbers. Empty for what was written
   * before there were ids.
   */
  readonly id: string
}

/** One version of a document: who wrote it, when and why. */
export interface Revision extends VersionId {
  /** By the clock of the store, milliseconds since the Unix epoch. */
  readonly atMs: number
  readonly by: string
  readonly why: string
}

export interface StoredDocument extends Revision {
  /** JSON of an object. */
  readonly text: string
}

/** What is written, and by whom. */
export interface DocumentWrite {
  /** JSON of an object, at most `MAX_DOCUMENT_BYTES` in UTF-8. */
  readonly text: string
  /** The version that the writer has changed, 0 for none. If that is not the newest any more, nothing is written. */
  readonly expectedVersion: number
  /** Its id; left out, the number alone is compared. */
  readonly expectedId?: string | undefined
  /** Who writes, for those who look at the history; at most `MAX_NOTE_CHARACTERS`. */
  readonly by: string
  /** As long at most. */
  readonly why: string
  /** Versions that are kept, this one among them: the same for all writes of a document. Left out, `KEPT_VERSIONS`. */
  readonly kept?: number | undefined
}

/** What became of a write. A refused one leaves all as it was. */
export type Written =
  | ({ readonly kind: 'written'; readonly atMs: number } & VersionId)
  /** Somebody else was faster. */
  | { readonly kind: 'conflict'; readonly version: number }
  /** It is longer than `MAX_DOCUMENT_BYTES`, or is no JSON of an object. */
  | { readonly kind: 'too-large' | 'malformed'; readonly version: number }

export const MAX_DOCUMENT_BYTES = 1_048_576
export const MAX_NOTE_CHARACTERS = 500
/** The last versions are kept, so that one can go back. */
export const KEPT_VERSIONS = 20

/**
 * One small document with versions, which operators write and every isolate reads. It does not expire: it is
 * configuration.
 */
export interface DocumentStore {
  /**
   * The newest version; undefined if that is the known one, which is cheap to find out. Where nothing was ever
   * written, or all was deleted, that is version 0, whose text is empty.
   * @throws {StoreError}
   */
  read(known?: VersionId): Promise<StoredDocument | undefined>
  /** What is left to do after a reading, for which nobody waits. */
  afterRead?(): Promise<void>
  /** @returns undefined if that version is not kept (any more). @throws {StoreError} */
  readVersion(version: number): Promise<StoredDocument | undefined>
  /** The versions that are kept, newest first. @throws {StoreError} */
  history(): Promise<readonly Revision[]>
  /**
   * Writes the next version. Of several who write at once, one succeeds.
   * @throws {StoreError} whether it was written is then unknown
   */
  write(write: DocumentWrite): Promise<Written>
}

/** What `read` tells where there is no document. */
export const NO_DOCUMENT: StoredDocument = { version: 0, id: '', atMs: 0, by: '', why: '', text: '' }

/**
 * Why a write is refused; undefined if it is not. Twin of the checks in `lua/documents/write.lua`.
 * @param newest the newest version
 */
export function checkWrite(
  { text, expectedVersion, expectedId }: DocumentWrite,
  { version, id }: VersionId,
): Exclude<Written, { readonly kind: 'written' }> | undefined {
  if (version !== expectedVersion || (expectedId ?? id) !== id) return { kind: 'conflict', version }
  if (new TextEncoder().encode(text).length > MAX_DOCUMENT_BYTES) return { kind: 'too-large', version }
  return isObject(text) ? undefined : { kind: 'malformed', version }
}

/** Whether two versions are one. */
export function isSameVersion(one: VersionId | undefined, other: VersionId | undefined): boolean {
  return one?.version === other?.version && one?.id === other?.id
}

function isObject(text: string): boolean {
  try {
    JSON.parse(text)
    return text.startsWith('{')
  } catch {
    return false
  }
}

/** As much of a note as is kept: it must not become a document of its own. */
export function cutNote(note: string): string {
  return note.slice(0, MAX_NOTE_CHARACTERS)
}

/** A writer loses only to one that succeeds. */
const MAX_TRIES = 10

/**
 * Writes what a change makes of the newest version, and again if somebody else was faster.
 * @param change returns undefined if nothing is to be written
 * @returns undefined if it did @throws {StoreError} whether it was written is then unknown
 */
export async function updateDocument(
  documents: DocumentStore,
  change: (newest: StoredDocument) => DocumentChange | undefined | Promise<DocumentChange | undefined>,
): Promise<Written | undefined> {
  for (let tries = 1; ; tries++) {
    // Without a known version, there is always an answer.
    const newest = (await documents.read()) as StoredDocument
    const write = await change(newest)
    if (!write) return undefined
    const written = await documents.write({ ...write, expectedVersion: newest.version, expectedId: newest.id })
    if (written.kind !== 'conflict' || tries === MAX_TRIES) return written
  }
}

type DocumentChange = Omit<DocumentWrite, 'expectedVersion' | 'expectedId'>
