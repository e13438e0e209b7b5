/** Hits of each rule, by the names that the reference server gives to them. Each process counts for itself. */

export interface RuleCount {
  readonly domain: string
  readonly key: string
  hits: number
  overLimit: number
  nearLimit: number
  shadow: number
}

/** `detailed_metric` names values of requests, of which there may be any number: more are counted as one. */
const MAX_RULES = 10_000
const OTHERS = 'other'
/** Hits after which less than this share of a limit remains are near it. */
const NEAR_SHARE = 0.2

export interface Hits {
  readonly hits: number
  /** Not all of them have fit. */
  readonly isOver: boolean
  readonly rule: { readonly isShadow: boolean }
  /** Omitted without a limit. */
  readonly tightest?: { readonly remaining: number; readonly limit: number } | undefined
}

export class RuleCounts {
  readonly #counts = new Map<string, RuleCount>()

  record(domain: string, key: string, { hits, isOver, rule, tightest }: Hits): void {
    const count = this.#find(domain, key)
    count.hits += hits
    if (isOver) count.overLimit += hits
    if (isOver && rule.isShadow) count.shadow += hits
    if (!isOver && tightest && tightest.remaining < tightest.limit * NEAR_SHARE) count.nearLimit += hits
  }

  list(): readonly RuleCount[] {
    return [...this.#counts.values()]
  }

  #find(domain: string, key: string): RuleCount {
    const name = JSON.stringify([domain, key])
    const found = this.#counts.get(name)
    if (found) return found
    if (this.#counts.size >= MAX_RULES && key !== OTHERS) return this.#find(domain, OTHERS)
    const created = { domain, key, hits: 0, overLimit: 0, nearLimit: 0, shadow: 0 }
    this.#counts.set(name, created)
    return created
  }
}
