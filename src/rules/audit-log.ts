import { StoreError } from '../model/store.ts'
import { type DocumentStore, MAX_DOCUMENT_BYTES, type StoredDocument, updateDocument } from '../store/documents.ts'

/** What an operator has done about a caller. */
export interface AuditEntry {
  /** Milliseconds since the Unix epoch. */
  readonly atMs: number
  /** Who, as they said. */
  readonly by: string
  /** In a few words, such as `block, answered 403`. */
  readonly what: string
  /** Empty if they did not say. */
  readonly why: string
  /** Of the caller, as keys and rules have them. */
  readonly digests: readonly string[]
}

/** Of all callers together, unless notes are so long that fewer of them fill a document. */
const KEPT_DEEDS = 500
/** Of each word of a deed. */
const MAX_CHARACTERS = 200
/** A caller has one for each thing that it is counted by. */
const MAX_DIGESTS = 20

/**
 * Notes what was done. It has been done: should the store not answer now, the note is missing, and nothing else.
 * @param deed of which long words are cut
 */
export async function appendAudit(journal: DocumentStore, deed: AuditEntry): Promise<void> {
  const { by, what: why } = deed
  try {
    await updateDocument(journal, ({ text }) => ({
      by,
      why,
      kept: 1,
      text: formatAudit([cut(deed), ...deedsIn(text)]),
    }))
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
  }
}

/** What was done about a caller, the latest first. @param digests it is known by @throws {StoreError} */
export async function readAudit(journal: DocumentStore, digests: ReadonlySet<string>): Promise<readonly AuditEntry[]> {
  const { text } = (await journal.read()) as StoredDocument
  return deedsIn(text).filter((deed) => deed.digests.some((digest) => digests.has(digest)))
}

/** Nothing but this file writes them; whatever else stands there is none. */
function deedsIn(text: string): readonly AuditEntry[] {
  if (text === '') return []
  const { deeds } = JSON.parse(text) as { readonly deeds?: unknown }
  return Array.isArray(deeds) ? (deeds as AuditEntry[]).filter(({ digests }) => Array.isArray(digests)) : []
}

/** As many as fit, the latest first. */
function formatAudit(deeds: readonly AuditEntry[]): string {
  const encoder = new TextEncoder()
  const kept: string[] = []
  let bytes = encoder.encode('{"deeds":[]}').length
  for (const deed of deeds.slice(0, KEPT_DEEDS)) {
    const text = JSON.stringify(deed)
    bytes += encoder.encode(`${text},`).length
    if (bytes > MAX_DOCUMENT_BYTES) break
    kept.push(text)
  }
  return `{"deeds":[${kept.join(',')}]}`
}

function cut({ atMs, by, what, why, digests }: AuditEntry): AuditEntry {
  // Redis takes half a character for malformed JSON.
  const short = (text: string) => text.slice(0, MAX_CHARACTERS).toWellFormed()
  return { atMs, by: short(by), what: short(what), why: short(why), digests: digests.slice(0, MAX_DIGESTS) }
}
