import { StoreError } from '../model/store.ts'
import { type DocumentStore, MAX_DOCUMENT_BYTES, type StoredDocument, updateDocument } from '../store/documents.ts'

export interface AuditEntry {
  /** Milliseconds since the Unix epoch. */
  readonly atMs: number
  readonly by: string
  /** A few words, such as `block, answered 403`. */
  readonly what: string
  /** Empty if the operator did not say. */
  readonly why: string
  readonly digests: readonly string[]
}

/** All callers share these, unless entries are so long that fewer of them fill a document. */
const MAX_ENTRIES = 500
/** The longest text in an entry. */
const MAX_CHARACTERS = 200
/** A caller has one digest for each thing that it is counted by. */
const MAX_DIGESTS = 20

/** Records what has been done; long texts are cut. If the store does not answer now, only the entry is missing. */
export async function appendAudit(journal: DocumentStore, entry: AuditEntry): Promise<void> {
  const { by, what: why } = entry
  try {
    await updateDocument(journal, ({ text }) => ({
      by,
      why,
      kept: 1,
      text: formatAudit([cutEntry(entry), ...parseAudit(text)]),
    }))
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
  }
}

/** Reads the entries about a caller, the latest first. @throws {StoreError} */
export async function readAudit(journal: DocumentStore, digests: ReadonlySet<string>): Promise<readonly AuditEntry[]> {
  const { text } = (await journal.read()) as StoredDocument
  return parseAudit(text).filter((entry) => entry.digests.some((digest) => digests.has(digest)))
}

/** Only this file writes entries; whatever else is stored is none. */
function parseAudit(text: string): readonly AuditEntry[] {
  if (text === '') return []
  const { deeds } = JSON.parse(text) as { readonly deeds?: unknown }
  return Array.isArray(deeds) ? (deeds as AuditEntry[]).filter(({ digests }) => Array.isArray(digests)) : []
}

/** Formats as many entries as fit, the latest first. */
function formatAudit(entries: readonly AuditEntry[]): string {
  const encoder = new TextEncoder()
  const kept: string[] = []
  let bytes = encoder.encode('{"deeds":[]}').length
  for (const entry of entries.slice(0, MAX_ENTRIES)) {
    const text = JSON.stringify(entry)
    bytes += encoder.encode(`${text},`).length
    if (bytes > MAX_DOCUMENT_BYTES) break
    kept.push(text)
  }
  return `{"deeds":[${kept.join(',')}]}`
}

function cutEntry({ atMs, by, what, why, digests }: AuditEntry): AuditEntry {
  // To Redis, half a surrogate pair is malformed JSON.
  const short = (text: string) => text.slice(0, MAX_CHARACTERS).toWellFormed()
  return { atMs, by: short(by), what: short(what), why: short(why), digests: digests.slice(0, MAX_DIGESTS) }
}
