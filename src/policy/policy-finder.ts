import type { Pattern } from './pattern.ts'
import { PatternRouter } from './pattern-router.ts'
import type { Policy } from './policy.ts'
import { highestPriority, type Priority } from './priority.ts'
import type { RequestPath } from './request-path.ts'

/** A policy that applies to a request. */
export interface Match {
  readonly policy: Policy
  /** The pattern that matched, as `METHOD /path`; undefined if the policy applies everywhere. */
  readonly route: string | undefined
}

/** Finds the policies that apply to a request. */
export class PolicyFinder {
  /** Whether the method of a request makes a difference. */
  readonly isByMethod: boolean
  readonly #policies = new PatternRouter<Match>()
  readonly #exempt = new PatternRouter<true>()

  constructor(policies: readonly Policy[], exempt: readonly Pattern[]) {
    const patterns = [...exempt, ...policies.flatMap(({ match }) => match ?? [])]
    this.isByMethod = patterns.some(({ method }) => method !== '*')
    for (const pattern of exempt) this.#exempt.add(pattern, true)
    for (const policy of policies) {
      if (!policy.match) this.#policies.add({ method: '*', path: '/*' }, { policy, route: undefined })
      for (const pattern of policy.match ?? []) {
        this.#policies.add(pattern, { policy, route: `${pattern.method} ${pattern.path}` }, policy.ignoresCase)
      }
    }
  }

  /**
   * Each policy at most once, by the first of its patterns that matches.
   * @param methods whatever the request's method may mean, its own first
   */
  find(methods: readonly string[], path: RequestPath): readonly Match[] | 'exempt' {
    const [method = ''] = methods
    const isCertain = methods.length === 1 && !path.isDoubtful
    // A policy holds for every reading of a request, an exemption only where there is but one.
    if (isCertain && this.#exempt.match(method, path.canonical).length > 0) return 'exempt'
    const found = new Map<Policy, Match>()
    for (const method of methods) {
      for (const reading of path.readings) {
        for (const match of this.#policies.match(method, reading)) {
          if (!found.has(match.policy)) found.set(match.policy, match)
        }
      }
    }
    return [...found.values()]
  }
}

/** The class that its policies give a request: by a doubtful path, none rises above others. */
export function priorityOf(matches: readonly Match[], { isDoubtful }: RequestPath): Priority {
  const priorities = matches.map(({ policy }) => policy.priority)
  if (!isDoubtful) return highestPriority(priorities)
  return priorities.includes('sheddable') ? 'sheddable' : 'default'
}
