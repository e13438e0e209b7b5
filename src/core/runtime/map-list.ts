/** Like `map()`, whose lists V8 gives another shape once their caller is optimized, which discards the optimized code. */
export function mapList<T, U>(values: readonly T[], convert: (value: T, index: number) => U): U[] {
  const list: U[] = []
  for (const value of values) list.push(convert(value, list.length))
  return list
}
