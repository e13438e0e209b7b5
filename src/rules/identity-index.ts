import type { IdentitySource } from '../model/policy.ts'
import { createDigest, type Digest } from '../request/identity/digest.ts'
import { formatSource } from '../request/identity/source.ts'
import { TextLru } from '../runtime/lru.ts'
import type { RuleTarget } from './target.ts'

const NOBODY: readonly never[] = []

/** What is known of callers by one source: of single ones by their digests, of many by a part of what they send. */
export class IdentityIndex<T> {
  readonly source: IdentitySource
  readonly #name: string
  readonly #digest: Digest
  readonly #byDigest = new Map<string, T[]>()
  readonly #wildcards = new Wildcards<T>()
  /** By value, so that it is digested once. */
  readonly #digested = new TextLru<readonly T[]>()

  constructor(source: IdentitySource, identitySecret: string | undefined) {
    this.source = source
    this.#name = formatSource(source)
    this.#digest = createDigest(identitySecret)
  }

  /** @param target known by this source */
  add({ digest, value }: RuleTarget, known: T): void {
    if (value !== undefined) this.#wildcards.add(value, known)
    if (digest === undefined) return
    const others = this.#byDigest.get(digest)
    if (others) others.push(known)
    else this.#byDigest.set(digest, [known])
  }

  /** @param value as the source is read */
  of(value: string): readonly T[] {
    const single = this.#ofSingle(value)
    if (this.#wildcards.isEmpty) return single
    // Claims are read as JSON.
    const many = this.#wildcards.of(this.source.kind === 'claim' ? String(JSON.parse(value)) : value)
    return single.length === 0 ? many : [...single, ...many]
  }

  /** @param digest of the value, for a source that is never named in part */
  ofDigest(digest: string): readonly T[] {
    return this.#byDigest.get(digest) ?? NOBODY
  }

  #ofSingle(value: string): readonly T[] {
    if (this.#byDigest.size === 0) return NOBODY
    let known = this.#digested.get(value)
    if (!known) {
      known = this.ofDigest(this.#digest([this.#name, value]))
      this.#digested.set(value, known)
    }
    return known
  }
}

/** Values with one `*`, which stands for any text, each with what is known of the values that it matches. */
export class Wildcards<T> {
  /** By what stands before and after the star; those of equal lengths together, the longest first. */
  #groups: readonly Group<T>[] = []

  /** @param pattern as `WILDCARD` describes it */
  add(pattern: string, known: T): void {
    const [before = '', after = ''] = pattern.split('*')
    let group = this.#groups.find((other) => other.before === before.length && other.after === after.length)
    if (!group) {
      group = { before: before.length, after: after.length, known: new Map() }
      this.#groups = [...this.#groups, group].sort((a, b) => b.before + b.after - a.before - a.after)
    }
    const others = group.known.get(pattern)
    if (others) others.push(known)
    else group.known.set(pattern, [known])
  }

  get isEmpty(): boolean {
    return this.#groups.length === 0
  }

  /** Of all patterns that match, the longest first. */
  of(value: string): readonly T[] {
    const found: T[] = []
    for (const { before, after, known } of this.#groups) {
      const end = value.length - after
      if (end < before) continue
      const matching = known.get(`${value.slice(0, before)}*${value.slice(end)}`)
      if (matching) found.push(...matching)
    }
    return found
  }
}

interface Group<T> {
  readonly before: number
  readonly after: number
  readonly known: Map<string, T[]>
}

/** One star, and no character that a field cannot hold. */
export const WILDCARD = /^[^*\p{Cc}]{0,200}\*[^*\p{Cc}]{0,200}$/u

export const WILDCARD_EXPECTED = 'a value with one "*", such as "acme-*" (one without stands as its digest)'
