/** The interface of a store of versioned documents, for rules and the audit log. */
import { sleep } from '../runtime/sleep.ts'

export interface VersionId {
  /** Counts up from 1. */
  readonly version: number
  /** Random, since lost versions may be written again with the same number; empty if there is none. */
  readonly id: string
}

export interface Revision extends VersionId {
  /** The clock of the store, milliseconds since the Unix epoch. */
  readonly atMs: number
  readonly actor: string
  readonly comment: string
}

export interface StoredDocument extends Revision {
  /** JSON of an object. */
  readonly text: string
}

export interface DocumentWrite {
  /** JSON of an object, at most `MAX_DOCUMENT_BYTES` in UTF-8. */
  readonly text: string
  /** The version that the writer has changed, 0 for none. If it is not the newest, nothing is written. */
  readonly expectedVersion: number
  /** Left out, only the number is compared. */
  readonly expectedId?: string | undefined
  /** This and `comment` are cut to `MAX_NOTE_CHARACTERS`. */
  readonly actor: string
  readonly comment: string
  /** Versions that are kept, this one included: the same for all writes of a document. Default: `KEPT_VERSIONS`. */
  readonly kept?: number | undefined
}

/** The result of a write. A refused one changes nothing. */
export type Written =
  | ({ readonly kind: 'written'; readonly atMs: number } & VersionId)
  | { readonly kind: 'conflict'; readonly version: number }
  | { readonly kind: 'too-large' | 'malformed'; readonly version: number }

export const MAX_DOCUMENT_BYTES = 1_048_576
const MAX_NOTE_CHARACTERS = 500
export const KEPT_VERSIONS = 20

/** One small document with versions, which operators write and every isolate reads. It does not expire. */
export interface DocumentStore {
  /**
   * @returns the newest version, `NO_DOCUMENT` if there is none; undefined if it is the known one, which is cheap to find
   * out. @throws {StoreError}
   */
  read(known?: VersionId): Promise<StoredDocument | undefined>
  /** Work after a reading, for which no response waits. */
  afterRead?(): Promise<void>
  /** @returns undefined if that version is not kept. @throws {StoreError} */
  readVersion(version: number): Promise<StoredDocument | undefined>
  /** @returns the versions that are kept, newest first. @throws {StoreError} */
  readHistory(): Promise<readonly Revision[]>
  /**
   * Writes the next version. If several write at once, one succeeds.
   * @throws {StoreError} whether it was written is then unknown
   */
  write(write: DocumentWrite): Promise<Written>
}

export const NO_DOCUMENT: StoredDocument = { version: 0, id: '', atMs: 0, actor: '', comment: '', text: '' }

/** Same as `lua/documents/write.lua`. @returns the next version, or why the write is refused */
export function createNextVersion(
  { text, expectedVersion, expectedId, actor, comment }: DocumentWrite,
  { version, id }: VersionId,
  atMs: number,
): StoredDocument | Exclude<Written, { readonly kind: 'written' }> {
  if (version !== expectedVersion || (expectedId ?? id) !== id) return { kind: 'conflict', version }
  if (new TextEncoder().encode(text).length > MAX_DOCUMENT_BYTES) return { kind: 'too-large', version }
  if (!isObject(text)) return { kind: 'malformed', version }
  const note = { actor: cutNote(actor), comment: cutNote(comment) }
  return { version: version + 1, id: crypto.randomUUID(), atMs, ...note, text }
}

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

/** A note must not become a document of its own. */
export function cutNote(note: string): string {
  return note.slice(0, MAX_NOTE_CHARACTERS)
}

/** One of several writers succeeds at each try: sixty that begin together all do, unless the store is far away. */
const MAX_TRIES = 12
/** The longest first pause after a conflict; each further one may be twice as long, up to the maximum. */
const FIRST_PAUSE_MS = 20
const MAX_PAUSE_MS = 5_000

/**
 * Changes the newest version, and tries again, after a pause of random length, if another writer was faster.
 * @param change returns undefined if nothing is to be written
 * @returns undefined if nothing was written. @throws {StoreError} whether it was written is then unknown
 */
export async function updateDocument(
  documents: DocumentStore,
  change: (newest: StoredDocument) => DocumentChange | undefined | Promise<DocumentChange | undefined>,
): Promise<Written | undefined> {
  for (let tries = 1; ; tries++) {
    const newest = (await documents.read()) ?? NO_DOCUMENT
    const write = await change(newest)
    if (!write) return undefined
    const written = await documents.write({ ...write, expectedVersion: newest.version, expectedId: newest.id })
    if (written.kind !== 'conflict' || tries === MAX_TRIES) return written
    await sleep(Math.random() * Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (tries - 1)))
  }
}

type DocumentChange = Omit<DocumentWrite, 'expectedVersion' | 'expectedId'>
