/** Tells which rules and policies are active: all that operators read of them comes from here. */
import type { RequestPolicy } from '../../core/model/policy.ts'
import { NO_DOCUMENT, type Revision, type VersionId } from '../../core/store/documents.ts'
import { NO_RULES, type Rules } from './document.ts'

/** How that which decides requests relates to that which the store holds. */
export type RulesState =
  /** There are no rules: the deployed configuration decides. */
  | { readonly kind: 'deployed' }
  /** The newest rules decide. */
  | { readonly kind: 'active' }
  /** The newest rules cannot be followed, so earlier ones decide. */
  | { readonly kind: 'invalid'; readonly problem: string }
  /** The store holds no rules any more. Those known here decide; an isolate that starts now has none. */
  | { readonly kind: 'lost' }
  /** The store did not answer: those known here decide, which may not be the newest. */
  | { readonly kind: 'unknown' }

/** The names of its kinds, for schemas. */
export const RULES_STATES = ['deployed', 'active', 'invalid', 'lost', 'unknown'] as const satisfies RulesState['kind'][]

/** The rules that decide requests here. The version is 0 without rules. */
export type ActiveRules = RulesState &
  VersionId & {
    readonly rules: Rules
    readonly policies: readonly RequestPolicy[]
    /** The newest that the store is known to hold; its version is 0 if there is none. */
    readonly stored: Revision
    /** When the store was last read; undefined: never. */
    readonly readAtMs: number | undefined
  }

/** Looks into the store first. @param rulesEngine undefined: rules are disabled */
export async function readActiveRules(
  rulesEngine: { look(): Promise<ActiveRules> } | undefined,
  { policies }: Pick<ActiveRules, 'policies'>,
): Promise<ActiveRules> {
  const none = { version: 0, id: '', rules: NO_RULES, stored: NO_DOCUMENT, readAtMs: undefined }
  return rulesEngine?.look() ?? { kind: 'deployed', ...none, policies }
}
