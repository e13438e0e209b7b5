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
