import {
  type Documents,
  MAX_DOCUMENT_BYTES,
  type Revision,
  type StoredDocument,
  type VersionId,
} from '../store/documents.ts'
import { parseRules, type Rules, readRules, writeRules } from './document.ts'
import { type Section, withSection } from './edits.ts'

/** Who changes the rules, and why. */
export type Note = Pick<Revision, 'by' | 'why'>

/** Rules, and the version that they are. */
export interface VersionedRules extends VersionId {
  readonly rules: Rules
}

/** What an edit led to. A refused one leaves all as it was. */
export type Edited =
  | ({ readonly kind: 'written'; readonly atMs: number } & VersionedRules)
  /** Nothing is different. */
  | ({ readonly kind: 'unchanged' } & VersionedRules)
  /** Others were faster each time, or than the version that was to be changed. */
  | { readonly kind: 'conflict'; readonly version: number }
  | { readonly kind: 'too-large'; readonly maxBytes: number }
  | UnknownVersion

/** The version to go back to is not kept. */
export interface UnknownVersion {
  readonly kind: 'unknown-version'
}

export interface EditOptions {
  /** Only if this is the newest version; left out, whichever is. */
  readonly expectedVersion?: number | undefined
  /** Its id: others may have been written with the number of one that was lost. */
  readonly expectedId?: string | undefined
  /** Throws a `OptionError` if the rules do not fit what the Worker is configured for. */
  readonly check?: ((rules: Rules) => void) | undefined
}

/** Each loses only to one that succeeds. */
const MOST_TRIES = 10

/** @throws {StoreError} @throws {OptionError} if what is stored are no rules */
export async function currentRules(documents: Documents): Promise<VersionedRules & Revision> {
  // Without a known version, there is always an answer.
  const { text, ...revision } = (await documents.read()) as StoredDocument
  return { ...revision, rules: parseRules(text) }
}

/**
 * Changes the rules: reads the newest version, checks what the change makes of it, and writes that if no other was
 * written meanwhile; else again.
 * @throws {OptionError} if the change makes no valid rules of them @throws {StoreError}
 */
export async function editRules(
  documents: Documents,
  change: (rules: Rules) => Rules,
  note: Note,
  { expectedVersion, expectedId, check }: EditOptions = {},
): Promise<Exclude<Edited, UnknownVersion>> {
  let version = 0
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const { rules: before, id, ...newest } = await currentRules(documents)
    version = newest.version
    if ((expectedVersion ?? version) !== version || (expectedId ?? id) !== id) break
    const rules = readRules(change(before))
    check?.(rules)
    const text = writeRules(rules)
    if (text === writeRules(before)) return { kind: 'unchanged', version, id, rules }
    const written = await documents.write({ text, expectedVersion: version, expectedId: id, ...note })
    if (written.kind === 'written') return { ...written, rules }
    if (written.kind === 'too-large') return { kind: 'too-large', maxBytes: MAX_DOCUMENT_BYTES }
    version = written.version
  }
  return { kind: 'conflict', version }
}

/** Writes a section of an older version that is still kept, or all of it, as it was. @throws {OptionError} @throws {StoreError} */
export async function rollBackRules(
  documents: Documents,
  version: number,
  { section, nowMs }: { readonly section: Section; readonly nowMs: number },
  note: Note,
  options?: EditOptions,
): Promise<Edited> {
  const stored = await documents.readVersion(version)
  if (!stored) return { kind: 'unknown-version' }
  const old = parseRules(stored.text)
  return editRules(documents, (rules) => withSection(rules, old, section, nowMs), note, options)
}
