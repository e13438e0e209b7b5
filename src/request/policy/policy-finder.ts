import { type Pattern, PRIORITIES, type Priority, type RequestPolicy } from '../../model/policy.ts'
import type { RequestMethods } from '../received-request.ts'
import type { RequestPath } from '../target.ts'
import { PatternRouter } from './pattern.ts'

/** A policy that applies to a request. */
export interface Match {
  readonly policy: RequestPolicy
  /** The pattern that matched, as `METHOD /path`; undefined if the policy applies everywhere. */
  readonly route: string | undefined
  /**
   * False if it matches only where the API takes what follows a slash at the end for an empty parameter or, of a policy
   * that gives a class, does not mind the case.
   */
  readonly isCertain: boolean
}

/** Finds the policies that apply to a request. */
export class PolicyFinder {
  /** The methods that patterns name. Among all others, it makes no difference which one a request has. */
  readonly methods: readonly string[]
  /** What is found of every request; undefined if that depends on it. */
  readonly #always: readonly Match[] | undefined
  readonly #policies = new PatternRouter<Match>()
  /** Those that give a class, in the case in which their patterns are written. */
  readonly #classes = new PatternRouter<RequestPolicy>()
  readonly #exempt = new PatternRouter<true>()

  constructor(policies: readonly RequestPolicy[], exempt: readonly Pattern[]) {
    const patterns = [...exempt, ...policies.flatMap(({ match }) => match ?? [])]
    const named = new Set(patterns.map(({ method }) => method))
    named.delete('*')
    if (named.has('GET')) named.add('HEAD')
    this.methods = [...named]
    for (const pattern of exempt) this.#exempt.add(pattern, true)
    for (const policy of policies) {
      if (!policy.match) this.#policies.add({ method: '*', path: '/*' }, everywhere(policy))
      for (const pattern of policy.match ?? []) {
        if (policy.priority) this.#classes.add(pattern, policy)
        this.#policies.add(
          pattern,
          { policy, route: `${pattern.method} ${pattern.path}`, isCertain: true },
          policy.ignoresCase,
        )
      }
    }
    this.#always = patterns.length === 0 ? policies.filter(({ match }) => !match).map(everywhere) : undefined
  }

  /**
   * Each policy at most once, by the first of its patterns that matches.
   * @returns `ambiguous` if the API may read the path in a way by which another policy would apply
   */
  find({ meant, isCertain }: RequestMethods, path: RequestPath): Found {
    const { canonical, withSlash, ambiguity } = path
    if (this.#always && !ambiguity) return this.#always
    const [method = ''] = meant
    // A policy holds for every method that a request may mean, an exemption only if there is just one.
    if (isCertain && !ambiguity && this.#isExempt(method, path)) return 'exempt'
    const found = new Map<RequestPolicy, Match>()
    for (const method of meant) {
      const matches = this.#policies.match(method, withSlash)
      const certain = withSlash === canonical ? matches : this.#policies.match(method, canonical)
      for (const match of matches) {
        if (found.has(match.policy)) continue
        const isCertain =
          (certain === matches || certain.some(({ policy }) => policy === match.policy)) &&
          (!match.policy.priority || !match.route || this.#classes.match(method, canonical).includes(match.policy))
        found.set(match.policy, isCertain ? match : { ...match, isCertain })
      }
    }
    const isLost = (match: Match) => !isCharged(match, found.get(match.policy))
    if (ambiguity && meant.some((method) => this.#policies.matchSomeOf(method, ambiguity.prefix).some(isLost))) {
      return 'ambiguous'
    }
    return [...found.values()]
  }

  #isExempt(method: string, { canonical, withSlash }: RequestPath): boolean {
    if (this.#exempt.match(method, canonical).length === 0) return false
    if (withSlash === canonical) return true
    // What APIs may take for an empty parameter is exempt if all parameters are, or if no policy is about it.
    const isParameterExempt = this.#exempt.match(method, `${withSlash}\0`).length > 0
    const [those, these] = [canonical, withSlash].map((path) => this.#policies.match(method, path).length)
    return isParameterExempt || those === these
  }
}

function everywhere(policy: RequestPolicy): Match {
  return { policy, route: undefined, isCertain: true }
}

export type Found = readonly Match[] | 'exempt' | 'ambiguous'

/** Whether a request that may also mean `match` is charged for it by what was found of its policy, or need not be. */
function isCharged({ policy, route }: Match, found: Match | undefined): boolean {
  // It is no loss to miss a policy that refuses nothing, or only raises the class.
  if (!policy.enforced || (policy.tiers.length === 0 && policy.priority !== 'sheddable')) return true
  if (!found) return false
  // By route, each pattern has a budget of its own; without patterns, each path.
  return !policy.by.some(({ kind }) => kind === 'route') || (route !== undefined && route === found.route)
}

/** The class that its policies give a request. With a path that may mean another, no request rises above others. */
export function findPriority(matches: readonly Match[], { ambiguity }: RequestPath): Priority {
  const priorities: (Priority | undefined)[] = []
  for (const { policy, isCertain } of matches) {
    if (isCertain || policy.priority === 'sheddable') priorities.push(policy.priority)
  }
  if (!ambiguity) return highestPriority(priorities)
  return priorities.includes('sheddable') ? 'sheddable' : 'default'
}

/** The most important class that a request's policies give it; `default` if none does. */
function highestPriority(priorities: readonly (Priority | undefined)[]): Priority {
  return PRIORITIES.find((priority) => priorities.includes(priority)) ?? 'default'
}
