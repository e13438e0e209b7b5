/** Functions of lists and tables, where those of the language are slower, missing in Node 20, or tell TypeScript too little. */

/** Like `map()`, whose lists V8 gives another shape once their caller is optimized, which discards the optimized code. */
export function mapList<T, U>(values: readonly T[], convert: (value: T, index: number) => U): U[] {
  const list: U[] = []
  for (const value of values) list.push(convert(value, list.length))
  return list
}

/** `Map.groupBy` is missing in Node 20. */
export function groupBy<Item, Group>(items: readonly Item[], find: (item: Item) => Group): Map<Group, Item[]> {
  const groups = new Map<Group, Item[]>()
  for (const item of items) {
    const name = find(item)
    const group = groups.get(name)
    if (group) group.push(item)
    else groups.set(name, [item])
  }
  return groups
}

/** Every field, optional ones, too: a copy that satisfies it lacks none, not even one that was added since. */
export type Complete<T> = { readonly [Name in keyof T]-?: T[Name] }

/** A table has no other names than those of its type. */
export function listNames<Name extends string>(table: Readonly<Record<Name, unknown>>): readonly Name[] {
  return Object.keys(table) as Name[]
}

export function mapNames<Name extends string, Value>(
  names: readonly Name[],
  read: (name: Name) => Value,
): Record<Name, Value> {
  return Object.fromEntries(names.map((name) => [name, read(name)])) as Record<Name, Value>
}
