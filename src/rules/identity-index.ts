import { formatSource, type IdentitySource } from '../model/identity-source.ts'
import type { Digest } from '../request/identity/digest.ts'
import { TextLru } from '../runtime/lru.ts'
import type { Block, Override } from './document.ts'
import type { RuleTarget } from './target.ts'
import { addTo, Wildcards } from './wildcards.ts'

export type RuleEntry = { readonly untilMs: number } & RuleEffect

export type RuleEffect =
  | { readonly kind: 'block'; readonly block: Block }
  | { readonly kind: 'allow' }
  | { readonly kind: 'override'; readonly override: Override }

export const NO_ENTRIES: readonly RuleEntry[] = []

/** The rules that name callers by one source: single callers by their digests, many by a part of the value. */
export class IdentityIndex {
  readonly source: IdentitySource
  hasBlocks = false
  readonly #digest: Digest
  readonly #byDigest = new Map<string, RuleEntry[]>()
  readonly #wildcards = new Wildcards<RuleEntry>()
  /** Rules by value, so that each is digested once. */
  readonly #digested = new TextLru<readonly RuleEntry[]>()

  constructor(source: IdentitySource, digest: Digest) {
    this.source = source
    this.#digest = digest
  }

  add({ digest, value }: RuleTarget, entry: RuleEntry): void {
    if (value !== undefined) this.#wildcards.add(value, entry)
    if (digest !== undefined) addTo(this.#byDigest, digest, entry)
    this.hasBlocks ||= entry.kind === 'block'
  }

  /** @param value as the source is read */
  find(value: string): readonly RuleEntry[] {
    const single = this.#findSingle(value)
    if (this.#wildcards.isEmpty) return single
    // Claims are read as JSON.
    const many = this.#wildcards.find(this.source.kind === 'claim' ? String(JSON.parse(value)) : value)
    return single.length === 0 ? many : [...single, ...many]
  }

  /** @param digest of the value, for a source that has no wildcards */
  findByDigest(digest: string): readonly RuleEntry[] {
    return this.#byDigest.get(digest) ?? NO_ENTRIES
  }

  #findSingle(value: string): readonly RuleEntry[] {
    if (this.#byDigest.size === 0) return NO_ENTRIES
    const found = this.#digested.get(value) ?? this.findByDigest(this.#digest([formatSource(this.source), value]))
    this.#digested.set(value, found)
    return found
  }
}
