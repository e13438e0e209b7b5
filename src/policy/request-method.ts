/** Fields by which some frameworks let a client name another method than that of the request. */
const OVERRIDES = ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override']

/**
 * The methods that a request may mean to the API behind: its own first, then those that it names for another one, in
 * such a field or as `_method` in the query. A policy must hold for all of them.
 */
export function readMethods({ method, headers, url }: Request): readonly string[] {
  const named = OVERRIDES.map((name) => headers.get(name) ?? '')
  // Parsed only where there may be one: an escape could hide it.
  if (/_method|%[4-7]/i.test(url)) named.push(...new URL(url).searchParams.getAll('_method'))
  const methods = named.flatMap((value) => value.split(',')).map((value) => value.trim().toUpperCase())
  return [...new Set([method, ...methods.filter((value) => value !== '')])]
}
