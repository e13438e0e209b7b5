/** Functions of lists, where those of the language are slower, or missing in Node 20. */

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
