/**
 * As `map()`, for what each request makes: V8 gives the lists of `map()` another shape once it has optimized its caller,
 * and then throws away the code that it has optimized for the first one.
 */
export function mapList<T, U>(values: readonly T[], of: (value: T, index: number) => U): U[] {
  const list: U[] = []
  for (const value of values) list.push(of(value, list.length))
  return list
}
