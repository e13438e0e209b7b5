/** Edits of rules: what each makes of those before it. */
import { isOver, type Rules } from './document.ts'
import { formatTargetKey, type RuleTarget } from './target.ts'

export type EntryList = 'blocks' | 'allows' | 'overrides'
export type Entries = { readonly [List in EntryList]: Rules[List][number] }

/** Replaces the entry of the list that is about the same target. */
export function withEntry<List extends EntryList>(list: List, rules: Rules, entry: Entries[List]): Rules {
  const entries: readonly RuleTarget[] = rules[list]
  const at = entries.findIndex((each) => isSameTarget(each, entry))
  return { ...rules, [list]: at < 0 ? [...entries, entry] : entries.with(at, entry) }
}

export function withoutEntry(list: EntryList, rules: Rules, target: RuleTarget): Rules {
  return { ...rules, [list]: rules[list].filter((entry) => !isSameTarget(entry, target)) }
}

/** Each section can be rolled back alone. */
export const SECTIONS = ['policies', 'blocks', 'allows', 'overrides'] as const
export type Section = (typeof SECTIONS)[number] | 'all'

export function withSection(rules: Rules, old: Rules, section: Section): Rules {
  return section === 'all' ? old : { ...rules, [section]: old[section] }
}

export function isSameTarget(one: RuleTarget, other: RuleTarget): boolean {
  return formatTargetKey(one) === formatTargetKey(other)
}

/** Every edit drops the entries that have ended. */
export function dropEnded(rules: Rules, nowMs: number): Rules {
  const lasts = (entry: { until?: string | undefined }) => !isOver(entry, nowMs)
  return {
    ...rules,
    blocks: rules.blocks.filter(lasts),
    allows: rules.allows.filter(lasts),
    overrides: rules.overrides.filter(lasts),
  }
}
