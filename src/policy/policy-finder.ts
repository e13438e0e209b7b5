import type { Pattern } from './pattern.ts'
import { PatternRouter } from './pattern-router.ts'
import type { Policy } from './policy.ts'

/** A policy that applies to a request. */
export interface Match {
  readonly policy: Policy
  /** The pattern that matched, as `METHOD /path`; undefined if the policy applies everywhere. */
  readonly route: string | undefined
}

/** Finds the policies that apply to a request. */
export class PolicyFinder {
  readonly #router = new PatternRouter<Match | 'exempt'>()

  constructor(policies: readonly Policy[], exempt: readonly Pattern[]) {
    for (const pattern of exempt) this.#router.add(pattern, 'exempt')
    for (const policy of policies) {
      if (!policy.match) this.#router.add({ method: '*', path: '/*' }, { policy, route: undefined })
      for (const pattern of policy.match ?? []) {
        this.#router.add(pattern, { policy, route: `${pattern.method} ${pattern.path}` })
      }
    }
  }

  /**
   * Each policy at most once, by the first of its patterns that matches.
   * @param path a canonical path
   */
  find(method: string, path: string): readonly Match[] | 'exempt' {
    const found = new Map<Policy, Match>()
    for (const match of this.#router.match(method, path)) {
      // To some origins an escaped slash is one, and `/public/..%2Fadmin` is not in /public: nothing is exempt by it.
      if (match === 'exempt' && /%2F|%5C/.test(path)) continue
      if (match === 'exempt') return match
      if (!found.has(match.policy)) found.set(match.policy, match)
    }
    return [...found.values()]
  }
}
