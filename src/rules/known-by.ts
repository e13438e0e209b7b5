import type { Source } from '../model/policy.ts'
import { createDigest, type Digest } from '../request/identity/digest.ts'
import { nameOfSource } from '../request/identity/source.ts'
import { TextLru } from '../runtime/lru.ts'
import { createMarker } from './mark.ts'
import type { Target } from './target.ts'
import { Wildcards } from './wildcards.ts'

const NOBODY: readonly never[] = []

/** What is known of callers by one source: of single ones by their digests, of many by a part of what they send. */
export class KnownBy<T> {
  readonly source: Source
  readonly #name: string
  readonly #digest: Digest
  readonly #markOf: (value: string) => number
  readonly #byDigest = new Map<string, T[]>()
  /** Of all digests; undefined: one of them has none. */
  #marks: Set<number> | undefined = new Set()
  readonly #wildcards = new Wildcards<T>()
  /** By value, so that it is digested once. */
  readonly #digested = new TextLru<readonly T[]>()

  constructor(source: Source, identitySecret: string | undefined) {
    this.source = source
    this.#name = nameOfSource(source)
    this.#digest = createDigest(identitySecret)
    this.#markOf = createMarker(identitySecret, this.#name)
  }

  /** @param target known by this source */
  add({ digest, mark, value }: Target, known: T): void {
    if (value !== undefined) this.#wildcards.add(value, known)
    if (digest === undefined) return
    const others = this.#byDigest.get(digest)
    if (others) others.push(known)
    else this.#byDigest.set(digest, [known])
    if (mark === undefined) this.#marks = undefined
    else this.#marks?.add(mark)
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
    if (this.#byDigest.size === 0 || this.#marks?.has(this.#markOf(value)) === false) return NOBODY
    let known = this.#digested.get(value)
    if (!known) {
      known = this.ofDigest(this.#digest([this.#name, value]))
      this.#digested.set(value, known)
    }
    return known
  }
}
