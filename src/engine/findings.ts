import type { Rule } from '../model/charge.ts'
import type { Match } from '../request/policy/policy-finder.ts'

/** What a limiter finds out on its way to a verdict, for whoever counts. */
export interface Findings {
  /** The policies that apply; none if it has not come so far. */
  matches: readonly Match[]
  /** What was asked of the store; empty if it was not. */
  charges: readonly { readonly match: Match; readonly rule: Rule }[]
}
