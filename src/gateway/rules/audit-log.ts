/** Records changes that concern single callers. */
import { StoreError } from '../../core/model/store.ts'
import {
  type DocumentStore,
  MAX_DOCUMENT_BYTES,
  type StoredDocument,
  updateDocument,
} from '../../core/store/documents.ts'

export interface AuditEntry {
  readonly atMs: number
  readonly actor: string
  /** A few words, such as `block, answered 403`. */
  readonly action: string
  /** Empty if the operator did not say. */
  readonly comment: string
  readonly digests: readonly string[]
}

/** All callers share these, unless entries are so long that fewer of them fill a document. */
const MAX_ENTRIES = 500
const MAX_CHARACTERS = 200
/** A caller has one digest for each thing that it is counted by. */
const MAX_DIGESTS = 20

/** Records what has been done; long texts are cut. If the store does not answer now, only the entry is missing. */
export async function appendAudit(auditLog: DocumentStore, entry: AuditEntry): Promise<void> {
  const { actor, action: comment } = entry
  try {
    await updateDocument(auditLog, ({ text }) => ({
      actor,
      comment,
      kept: 1,
      text: formatAudit([cutEntry(entry), ...parseAudit(text)]),
    }))
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
  }
}

/** Reads the entries about a caller, the latest first. @throws {StoreError} */
export async function readAudit(auditLog: DocumentStore, digests: ReadonlySet<string>): Promise<readonly AuditEntry[]> {
  const { text } = (await auditLog.read()) as StoredDocument
  return parseAudit(text).filter((entry) => entry.digests.some((digest) => digests.has(digest)))
}

/** Only this file writes entries; anything else that is stored is none. */
function parseAudit(text: string): readonly AuditEntry[] {
  if (text === '') return []
  const { audit } = JSON.parse(text) as { readonly audit?: unknown }
  return Array.isArray(audit) ? (audit as AuditEntry[]).filter((entry) => Array.isArray(entry?.digests)) : []
}

/** Formats as many entries as fit, the latest first. */
function formatAudit(entries: readonly AuditEntry[]): string {
  for (const audit = entries.slice(0, MAX_ENTRIES); ; audit.pop()) {
    const text = JSON.stringify({ audit })
    if (new TextEncoder().encode(text).length <= MAX_DOCUMENT_BYTES) return text
  }
}

function cutEntry({ atMs, actor, action, comment, digests }: AuditEntry): AuditEntry {
  // To Redis, half a surrogate pair is malformed JSON.
  const short = (text: string) => text.slice(0, MAX_CHARACTERS).toWellFormed()
  const cut = { actor: short(actor), action: short(action), comment: short(comment) }
  return { atMs, ...cut, digests: digests.slice(0, MAX_DIGESTS) }
}
