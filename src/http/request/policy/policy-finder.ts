/** Finds the policies that match a request in any reading of its method and path. */
import {
  isEnforced,
  type Pattern,
  type PolicyMode,
  PRIORITIES,
  type Priority,
  type RequestPolicy,
} from '../../../core/model/policy.ts'
import type { RequestMethods } from '../received-request.ts'
import type { RequestPath } from '../target.ts'
import { PatternRouter } from './pattern.ts'

export interface Match {
  readonly policy: RequestPolicy
  /** The pattern that matched, as `METHOD /path`; undefined if the policy applies everywhere. */
  readonly route: string | undefined
  /**
   * False if the API must read an empty parameter after a last slash, obey another method that the request names or, in a
   * policy with a priority, ignore case.
   */
  readonly isCertain: boolean
}

/** Matches every request. */
export const EVERY_REQUEST: Pattern = { method: '*', path: '/*' }

export class PolicyFinder {
  /** The methods that patterns name; all others are equivalent. */
  readonly methods: readonly string[]
  /** The matches of every request, if there are no patterns. */
  readonly #always: readonly Match[] | undefined
  readonly #policies = new PatternRouter<Match>()
  /** The policies with a priority, by patterns in their original case. */
  readonly #prioritized = new PatternRouter<RequestPolicy>()
  readonly #exempt = new PatternRouter<true>()

  constructor(policies: readonly RequestPolicy[], exempt: readonly Pattern[]) {
    const patterns = [...exempt, ...policies.flatMap(({ match }) => match ?? [])]
    const named = new Set(patterns.map(({ method }) => method))
    named.delete('*')
    if (named.has('GET')) named.add('HEAD')
    this.methods = [...named]
    if (patterns.length === 0) {
      this.#always = policies.map((policy) => ({ policy, route: undefined, isCertain: true }))
      return
    }
    for (const pattern of exempt) this.#exempt.add(pattern, true)
    for (const policy of policies) {
      for (const pattern of policy.match ?? [EVERY_REQUEST]) {
        if (policy.priority && policy.match) this.#prioritized.add(pattern, policy)
        const route = policy.match && `${pattern.method} ${pattern.path}`
        this.#policies.add(pattern, { policy, route, isCertain: true }, policy.match && policy.ignoresCase)
      }
    }
  }

  /**
   * Each policy at most once, by the first of its patterns that matches without a last slash, or else with it.
   * @returns `ambiguous` if the API may read the path in a way by which another policy would apply
   */
  find(methods: RequestMethods, path: RequestPath): FoundMatches {
    if (!this.#always) return this.#findByPattern(methods, path)
    return path.ambiguity && !this.#always.every((match) => coversMatch(match, match)) ? 'ambiguous' : this.#always
  }

  #findByPattern({ meant, isCertain }: RequestMethods, path: RequestPath): FoundMatches {
    const { canonical, withSlash, ambiguity } = path
    const [method = ''] = meant
    // A policy applies to every method that a request may mean, an exemption only if there is just one.
    if (isCertain && !ambiguity && this.#isExempt(method, path)) return 'exempt'
    const found = new Map<RequestPolicy, Match>()
    for (const method of meant) {
      const matches = this.#policies.match(method, withSlash)
      const certain = withSlash === canonical ? matches : this.#policies.match(method, canonical)
      for (const one of matches) {
        const { policy } = one
        if (found.has(policy)) continue
        const match = certain === matches ? one : certain.find((other) => other.policy === policy)
        const isMatchCertain =
          match !== undefined &&
          (isCertain || meant.every((each) => this.#applies(policy, each, withSlash))) &&
          (!policy.priority || !match.route || this.#prioritized.match(method, canonical).includes(policy))
        found.set(policy, isMatchCertain ? match : { ...(match ?? one), isCertain: false })
      }
    }
    const isEvaded = (match: Match) => !coversMatch(match, found.get(match.policy))
    if (ambiguity && meant.some((method) => this.#policies.matchSomeOf(method, ambiguity.prefix).some(isEvaded))) {
      return 'ambiguous'
    }
    return [...found.values()]
  }

  #applies(policy: RequestPolicy, method: string, path: string): boolean {
    return this.#policies.match(method, path).some((match) => match.policy === policy)
  }

  #isExempt(method: string, { canonical, withSlash }: RequestPath): boolean {
    if (this.#exempt.match(method, canonical).length === 0) return false
    if (withSlash === canonical) return true
    // A possible empty parameter is exempt if all parameters are, or if no policy matches it.
    const isParameterExempt = this.#exempt.match(method, `${withSlash}\0`).length > 0
    const countPolicies = (path: string) => this.#policies.match(method, path).length
    return isParameterExempt || countPolicies(canonical) === countPolicies(withSlash)
  }
}

export type FoundMatches = readonly Match[] | 'exempt' | 'ambiguous'

/** Tests that a request that may also mean `match` is charged for it by the match found of its policy, or need not be. */
function coversMatch({ policy, route }: Match, found: Match | undefined): boolean {
  // A policy that refuses nothing, or only raises the priority, need not match.
  if (!isEnforced(policy) || (policy.limits.length === 0 && policy.priority !== 'sheddable')) return true
  if (!found) return false
  // By route, each pattern has its own limits; without patterns, each path.
  return !policy.by.some(({ kind }) => kind === 'route') || (route !== undefined && route === found.route)
}

/**
 * Finds the highest priority that policies give a request. An ambiguous path raises none.
 * @param mode that of the charge: what is enforced depends on no policy in shadow mode
 */
export function findPriority(
  matches: readonly Match[],
  { ambiguity }: RequestPath,
  mode: PolicyMode = 'enforce',
): Priority {
  const priorities: (Priority | undefined)[] = []
  for (const { policy, isCertain } of matches) {
    if (isEnforced({ mode }) && !isEnforced(policy)) continue
    if (isCertain || policy.priority === 'sheddable') priorities.push(policy.priority)
  }
  if (ambiguity) return priorities.includes('sheddable') ? 'sheddable' : 'default'
  return PRIORITIES.find((priority) => priorities.includes(priority)) ?? 'default'
}
