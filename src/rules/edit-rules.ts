import {
  type DocumentStore,
  MAX_DOCUMENT_BYTES,
  type Revision,
  type StoredDocument,
  updateDocument,
  type VersionId,
} from '../store/documents.ts'
import {
  type Allow,
  type Block,
  isOver,
  NO_RULES,
  type Override,
  parseRules,
  type Rules,
  readRules,
  writeRules,
} from './document.ts'
import { formatTargetKey, type RuleTarget } from './target.ts'

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

/** @throws {StoreError} @throws {OptionError} if what is stored are no rules */
export async function currentRules(documents: DocumentStore): Promise<VersionedRules & Revision> {
  // Without a known version, there is always an answer.
  const { text, ...revision } = (await documents.read()) as StoredDocument
  return { ...revision, rules: parseRules(text) }
}

/**
 * Changes the rules: reads the newest version, checks what the change makes of it, and writes that if no other was
 * written meanwhile; else again.
 * @throws {ConfigError} if the change makes no valid rules of them @throws {StoreError}
 */
export async function editRules(
  documents: DocumentStore,
  change: (rules: Rules) => Rules,
  note: Note,
  { expectedVersion, expectedId, check }: EditOptions = {},
): Promise<Exclude<Edited, UnknownVersion>> {
  let edited: VersionedRules | undefined
  let hasConflict = false
  const written = await updateDocument(documents, ({ text: before, version, id }) => {
    hasConflict = (expectedVersion ?? version) !== version || (expectedId ?? id) !== id
    const old = parseRules(before)
    edited = { version, id, rules: hasConflict ? old : readRules(change(old)) }
    if (hasConflict) return undefined
    check?.(edited.rules)
    const text = writeRules(edited.rules)
    return text === writeRules(old) ? undefined : { text, ...note }
  })
  const { version, id, rules } = edited as VersionedRules
  if (!written) return hasConflict ? { kind: 'conflict', version } : { kind: 'unchanged', version, id, rules }
  if (written.kind === 'written') return { ...written, rules }
  if (written.kind === 'too-large') return { kind: 'too-large', maxBytes: MAX_DOCUMENT_BYTES }
  return { kind: 'conflict', version: written.version }
}

/** Writes a section of an older version that is still kept, or all of it, as it was. @throws {OptionError} @throws {StoreError} */
export async function rollBackRules(
  documents: DocumentStore,
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

/** What is ruled for somebody, by the name of its list. */
export interface Entries {
  readonly blocks: Block
  readonly allows: Allow
  readonly overrides: Override
}

/** A list of the document. */
export type EntryList = keyof Entries

/** In place of another entry of the same list that is about the same target. */
export function withEntry<List extends EntryList>(
  list: List,
  rules: Rules,
  entry: Entries[List],
  nowMs: number,
): Rules {
  return current({ ...rules, [list]: [...others(rules[list], entry), entry] }, nowMs)
}

/** Without what the list has about a target. */
export function withoutEntry(list: EntryList, rules: Rules, target: RuleTarget, nowMs: number): Rules {
  return current({ ...rules, [list]: others(rules[list], target) }, nowMs)
}

/**
 * @param policies in place of POLICIES; undefined: POLICIES again
 * @param isShadow whether they are only to decide beside those in force; else a shadow of them ends
 */
export function withPolicies(rules: Rules, policies: Rules['policies'], isShadow: boolean, nowMs: number): Rules {
  const { shadow: _, policies: inForce, ...others } = rules
  const next = isShadow ? { policies: inForce, shadow: policies } : { policies }
  const set = Object.fromEntries(Object.entries(next).filter(([, list]) => list !== undefined))
  return current({ ...others, ...set }, nowMs)
}

/** What can be rolled back alone. */
export const SECTIONS = ['policies', 'shadow', 'blocks', 'allows', 'overrides'] as const
export type Section = (typeof SECTIONS)[number] | 'all'

/** With a section as it was in older rules, or all of them. */
export function withSection(rules: Rules, old: Rules, section: Section, nowMs: number): Rules {
  if (section === 'all') return current(old, nowMs)
  const { [section]: _, ...others } = rules
  // A list of entries is always there.
  const before = old[section]
  return current({ ...NO_RULES, ...others, ...(before !== undefined && { [section]: before }) }, nowMs)
}

function others(entries: readonly RuleTarget[], target: RuleTarget): readonly RuleTarget[] {
  const name = formatTargetKey(target)
  return entries.filter((entry) => formatTargetKey(entry) !== name)
}

function current(rules: Rules, nowMs: number): Rules {
  const lasts = (entry: { until?: string | undefined }) => !isOver(entry, nowMs)
  return {
    ...rules,
    blocks: rules.blocks.filter(lasts),
    allows: rules.allows.filter(lasts),
    overrides: rules.overrides.filter(lasts),
  }
}
