/** One thing that requests can be told apart by. */
export type Source =
  | { readonly kind: 'token' | 'ip' | 'route' | 'global' }
  | { readonly kind: 'header' | 'query'; readonly name: string }

export const BY_EXPECTED = '"token", "ip", "route", "global", "header:<name>" or "query:<name>", joined with "+"'

/**
 * Reads what a policy counts by, e.g. `token+route`.
 * @returns undefined for anything but what `BY_EXPECTED` says
 */
export function parseBy(text: string): readonly Source[] | undefined {
  const sources: Source[] = []
  for (const part of text.split('+')) {
    const source = parseSource(part.trim())
    if (!source) return undefined
    sources.push(source)
  }
  return sources
}

function parseSource(text: string): Source | undefined {
  switch (text) {
    case 'token':
    case 'ip':
    case 'route':
    case 'global':
      return { kind: text }
  }
  const [, header] = /^header:([!#$%&'*.^_`|~0-9A-Za-z-]+)$/.exec(text) ?? []
  if (header) return { kind: 'header', name: header.toLowerCase() }
  const [, query] = /^query:(\S+)$/.exec(text) ?? []
  return query ? { kind: 'query', name: query } : undefined
}
