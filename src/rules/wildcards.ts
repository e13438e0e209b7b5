interface Group<Value, T> {
  readonly name: string
  readonly width: number
  readonly readKey: (value: Value) => string | undefined
  readonly entries: Map<string, T[]>
}

/** Entries that each match many values. A look-up takes one step for each group; the widest key comes first. */
export class EntryGroups<Value, T> {
  #groups: readonly Group<Value, T>[] = []

  get isEmpty(): boolean {
    return this.#groups.length === 0
  }

  /** @param readKey reads the part of a value that entries of this group share; undefined if the value is too short */
  add(value: Value, entry: T, { name, width, readKey }: Omit<Group<Value, T>, 'entries'>): void {
    let group = this.#groups.find((other) => other.name === name)
    if (!group) {
      group = { name, width, readKey, entries: new Map() }
      this.#groups = [...this.#groups, group].sort((a, b) => b.width - a.width)
    }
    addTo(group.entries, group.readKey(value) as string, entry)
  }

  find(value: Value): readonly T[] {
    const found: T[] = []
    for (const { readKey, entries } of this.#groups) {
      const key = readKey(value)
      if (key !== undefined) found.push(...(entries.get(key) ?? []))
    }
    return found
  }
}

export function addTo<K, T>(map: Map<K, T[]>, key: K, entry: T): void {
  const others = map.get(key)
  if (others) others.push(entry)
  else map.set(key, [entry])
}

/** Values with one `*`, which stands for any text. */
export class Wildcards<T> extends EntryGroups<string, T> {
  /** @param pattern as `WILDCARD` describes it */
  override add(pattern: string, entry: T): void {
    const [before = 0, after = 0] = pattern.split('*').map(({ length }) => length)
    super.add(pattern, entry, {
      name: `${before} ${after}`,
      width: before + after,
      readKey(value) {
        const end = value.length - after
        return end < before ? undefined : `${value.slice(0, before)}*${value.slice(end)}`
      },
    })
  }
}

/** The pattern has one star, and no character that a header cannot hold. */
export const WILDCARD = /^[^*\p{Cc}]{0,200}\*[^*\p{Cc}]{0,200}$/u
export const WILDCARD_EXPECTED = 'a value with one "*", such as "acme-*" (one without is stored as a digest)'
