/** One thing that tells requests apart. */
export type Source =
  | { readonly kind: 'token' | 'ip' | 'route' | 'global' }
  | { readonly kind: 'header' | 'query' | 'form'; readonly name: string }
  /** A function of the application says who it is, or returns undefined if it does not know. */
  | { readonly kind: 'application'; readonly tell: (context: never) => unknown }

export const BY_EXPECTED =
  '"token", "ip", "route", "global", "header:<name>", "query:<name>" or "form:<name>", joined with "+"'

/**
 * Reads what a policy counts by, e.g. `token+route`.
 * @returns undefined for anything but what `BY_EXPECTED` says
 */
export function parseBy(text: string): readonly Source[] | undefined {
  const sources = text.split('+').map((part) => parseSource(part.trim()))
  return sources.every((source) => source !== undefined) ? sources : undefined
}

/** The name in `header:<name>`, in lower case; undefined for anything else. */
export function parseHeaderSource(text: string): string | undefined {
  return /^header:([!#$%&'*.^_`|~0-9A-Za-z-]+)$/.exec(text)?.[1]?.toLowerCase()
}

function parseSource(text: string): Source | undefined {
  switch (text) {
    case 'token':
    case 'ip':
    case 'route':
    case 'global':
      return { kind: text }
  }
  const header = parseHeaderSource(text)
  if (header !== undefined) return { kind: 'header', name: header }
  const [, kind, name] = /^(query|form):(\S+)$/.exec(text) ?? []
  return kind && name ? { kind: kind as 'query' | 'form', name } : undefined
}
