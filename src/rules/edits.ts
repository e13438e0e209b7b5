/** Changes of a document. Each returns a new one, without what is over by then. */
import { type Allow, type Block, isOver, NO_RULES, type Override, type Rules } from './document.ts'
import { nameOfTarget, type Target } from './target.ts'

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
export function withoutEntry(list: EntryList, rules: Rules, target: Target, nowMs: number): Rules {
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

function others(entries: readonly Target[], target: Target): readonly Target[] {
  const name = nameOfTarget(target)
  return entries.filter((entry) => nameOfTarget(entry) !== name)
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
