import { HIDDEN, OptionError } from '../config/option-error.ts'
import {
  type DocumentStore,
  type Revision,
  type StoredDocument,
  updateDocument,
  type VersionId,
} from '../store/documents.ts'
import { isOver, NO_RULES, parseRules, RULES, type Rules, readRules } from './document.ts'
import { formatTargetKey, type RuleTarget } from './target.ts'

/** Matches half of a surrogate pair in JSON, which Redis cannot read. */
const LONE_SURROGATE = /(?<!\\)(?:\\\\)*\\ud[89a-f][\da-f]{2}/

export type Note = Pick<Revision, 'actor' | 'comment'>

export interface VersionedRules extends VersionId {
  readonly rules: Rules
}

/** A refused edit leaves all as it was. */
export type Edited =
  | ({ readonly kind: 'written'; readonly atMs: number } & VersionedRules)
  | ({ readonly kind: 'unchanged' } & VersionedRules)
  /** The version that was to be changed is not the newest, or others were faster each time. */
  | { readonly kind: 'conflict'; readonly version: number }
  /** The stored document is not valid: another program has written it, or another release of sluice. */
  | { readonly kind: 'invalid'; readonly error: OptionError }
  | { readonly kind: 'too-large' }

export interface EditOptions {
  /** The edit applies only to this version; left out, to whichever is the newest. */
  readonly expectedVersion?: number | undefined
  /** The version's id: others may have been written with the number of one that was lost. */
  readonly expectedId?: string | undefined
  /** The edit keeps nothing of the newest version, which may then be invalid. */
  readonly replacesAll?: boolean | undefined
  /** Throws an `OptionError` if the rules do not fit the Worker's configuration. */
  readonly check?: ((rules: Rules) => void) | undefined
}

/** @throws {StoreError} @throws {OptionError} if what is stored are no rules */
export async function readCurrentRules(documents: DocumentStore): Promise<VersionedRules & Revision> {
  // Without a known version, there is always an answer.
  const { text, ...revision } = (await documents.read()) as StoredDocument
  return { ...revision, rules: parseRules(text) }
}

/** Changes the newest rules. @throws {OptionError} if the result is invalid @throws {StoreError} */
export async function editRules(
  documents: DocumentStore,
  change: (rules: Rules) => Rules,
  note: Note,
  { expectedVersion, expectedId, replacesAll, check }: EditOptions = {},
): Promise<Edited> {
  let edited: Edited | undefined
  const written = await updateDocument(documents, ({ text: before, version, id }) => {
    if ((expectedVersion ?? version) !== version || (expectedId ?? id) !== id) {
      edited = { kind: 'conflict', version }
      return undefined
    }
    const old = parseStoredRules(before)
    if (old instanceof OptionError && !replacesAll) {
      edited = { kind: 'invalid', error: old }
      return undefined
    }
    const rules = readRules(change(old instanceof OptionError ? NO_RULES : old))
    check?.(rules)
    edited = { kind: 'unchanged', version, id, rules }
    const text = JSON.stringify(rules)
    if (LONE_SURROGATE.test(text)) throw new OptionError(RULES, 'text without half characters', HIDDEN)
    return text === JSON.stringify(old) ? undefined : { text, ...note }
  })
  const result = edited as Edited
  if (!written || result.kind !== 'unchanged') return result
  if (written.kind === 'written') return { ...written, rules: result.rules }
  return written.kind === 'too-large' ? { kind: 'too-large' } : { kind: 'conflict', version: written.version }
}

function parseStoredRules(text: string): Rules | OptionError {
  try {
    return parseRules(text)
  } catch (error) {
    if (error instanceof OptionError) return error
    throw error
  }
}

export type EntryList = 'blocks' | 'allows' | 'overrides'
export type Entries = { readonly [List in EntryList]: Rules[List][number] }

/** Replaces the entry of the list that is about the same target. */
export function withEntry<List extends EntryList>(
  list: List,
  rules: Rules,
  entry: Entries[List],
  nowMs: number,
): Rules {
  const entries: readonly RuleTarget[] = rules[list]
  const at = entries.findIndex((each) => isSameTarget(each, entry))
  return dropEnded({ ...rules, [list]: at < 0 ? [...entries, entry] : entries.with(at, entry) }, nowMs)
}

export function withoutEntry(list: EntryList, rules: Rules, target: RuleTarget, nowMs: number): Rules {
  return dropEnded({ ...rules, [list]: rules[list].filter((entry) => !isSameTarget(entry, target)) }, nowMs)
}

/**
 * @param policies take the place of POLICIES; undefined: POLICIES again
 * @param isCandidate they become candidate policies; else the candidate policies end
 */
export function withPolicies(rules: Rules, policies: Rules['policies'], isCandidate: boolean, nowMs: number): Rules {
  const next = isCandidate ? { candidate: policies } : { policies, candidate: undefined }
  return dropEnded({ ...rules, ...next }, nowMs)
}

/** Each section can be rolled back alone. */
export const SECTIONS = ['policies', 'candidate', 'blocks', 'allows', 'overrides'] as const
export type Section = (typeof SECTIONS)[number] | 'all'

export function withSection(rules: Rules, old: Rules, section: Section, nowMs: number): Rules {
  return dropEnded(section === 'all' ? old : { ...rules, [section]: old[section] }, nowMs)
}

export function isSameTarget(one: RuleTarget, other: RuleTarget): boolean {
  return formatTargetKey(one) === formatTargetKey(other)
}

function dropEnded(rules: Rules, nowMs: number): Rules {
  const lasts = (entry: { until?: string | undefined }) => !isOver(entry, nowMs)
  return {
    ...rules,
    blocks: rules.blocks.filter(lasts),
    allows: rules.allows.filter(lasts),
    overrides: rules.overrides.filter(lasts),
  }
}
