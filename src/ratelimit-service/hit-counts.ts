/** Counts the hits of each limit, by the names that the reference server gives to them. Each process counts for itself. */
import type { DescriptorLimit } from './rate-limits.ts'

export interface HitCount {
  readonly domain: string
  readonly key: string
  hits: number
  overLimit: number
  nearLimit: number
  shadow: number
}

/** `detailed_metric` names values of requests, of which there may be any number and length: others are counted as one. */
const MAX_KEYS = 10_000
const MAX_KEY_CHARACTERS = 512
const OTHERS = 'other'
/** Hits beyond this share of a limit are near it. */
const NEAR_SHARE = 0.8

export interface Hits {
  readonly hits: number
  readonly fitting: number
  readonly rateLimit: Pick<DescriptorLimit, 'isShadow'>
  /** Omitted without a limit. */
  readonly tightest?: { readonly remaining: number; readonly limit: number } | undefined
}

export class HitCounts {
  readonly #counts = new Map<string, HitCount>()

  record(domain: string, key: string, { hits, fitting, rateLimit, tightest }: Hits): void {
    const count = this.#find(domain, key)
    const over = hits - fitting
    count.hits += hits
    count.overLimit += over
    if (rateLimit.isShadow) count.shadow += over
    if (!tightest) return
    const used = tightest.limit - tightest.remaining
    count.nearLimit += Math.max(0, used - Math.max(Math.floor(tightest.limit * NEAR_SHARE), used - fitting))
  }

  list(): readonly HitCount[] {
    return [...this.#counts.values()]
  }

  #find(domain: string, key: string): HitCount {
    if (key.length > MAX_KEY_CHARACTERS) return this.#find(domain, OTHERS)
    const name = JSON.stringify([domain, key])
    const found = this.#counts.get(name)
    if (found) return found
    if (this.#counts.size >= MAX_KEYS && key !== OTHERS) return this.#find(domain, OTHERS)
    const created = { domain, key, hits: 0, overLimit: 0, nearLimit: 0, shadow: 0 }
    this.#counts.set(name, created)
    return created
  }
}
