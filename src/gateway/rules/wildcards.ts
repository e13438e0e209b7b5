/** Finds rules by a part of a value. */

interface Group<T> {
  readonly before: number
  readonly after: number
  readonly entries: Map<string, T[]>
}

/** Entries by values with one `*`. A look-up takes one step for each pair of lengths around it; the longest comes first. */
export class Wildcards<T> {
  #groups: readonly Group<T>[] = []

  get isEmpty(): boolean {
    return this.#groups.length === 0
  }

  add(pattern: string, entry: T): void {
    const [before = 0, after = 0] = pattern.split('*').map(({ length }) => length)
    let group = this.#groups.find((other) => other.before === before && other.after === after)
    if (!group) {
      group = { before, after, entries: new Map() }
      this.#groups = [...this.#groups, group].sort((a, b) => b.before + b.after - a.before - a.after)
    }
    addTo(group.entries, pattern, entry)
  }

  find(value: string): readonly T[] {
    const found: T[] = []
    for (const { before, after, entries } of this.#groups) {
      const end = value.length - after
      if (end >= before) found.push(...(entries.get(`${value.slice(0, before)}*${value.slice(end)}`) ?? []))
    }
    return found
  }
}

export function addTo<K, T>(map: Map<K, T[]>, key: K, entry: T): void {
  const others = map.get(key)
  if (others) others.push(entry)
  else map.set(key, [entry])
}

/** The pattern has one star, which stands for any text, and no character that a header cannot hold. */
export const WILDCARD = /^[^*\p{Cc}]{0,200}\*[^*\p{Cc}]{0,200}$/u
export const WILDCARD_EXPECTED = 'a value with one "*", such as "acme-*" (one without is stored as a digest)'
