import type { Source } from '../../model/policy.ts'
import { parsePointer } from './json-pointer.ts'

/** Whether it is read from the body, which a client can write so that nobody reads it for certain. */
export function isInBody({ kind }: Source): boolean {
  return kind === 'form' || kind === 'json'
}

/** Whether people may type it, each time in another case. */
export function isFoldable(source: Source): boolean {
  return 'name' in source || source.kind === 'application'
}

export const BY_EXPECTED =
  '"token", "ip", "route", "global", "header:<name>", "query:<name>", "form:<name>", "cookie:<name>", "json:</pointer>" or "claim:<name or /pointer>", joined with "+"'

/**
 * Reads what a policy counts by, e.g. `token+route`.
 * @returns undefined for anything but what `BY_EXPECTED` says
 */
export function parseBy(text: string): readonly Source[] | undefined {
  const sources = text.split('+').map((part) => parseSource(part.trim()))
  return sources.every((source) => source !== undefined) ? sources : undefined
}

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*.^_`|~0-9A-Za-z-]+$/

/** The name in `header:<name>`, in lower case; undefined for anything else. */
export function parseHeaderSource(text: string): string | undefined {
  const name = text.startsWith('header:') ? text.slice(7) : ''
  return TOKEN.test(name) ? name.toLowerCase() : undefined
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
  const [, kind, name] = /^(query|form|cookie|json|claim):(\S+)$/.exec(text) ?? []
  if (!kind || !name) return undefined
  if (kind === 'json') {
    const path = parsePointer(name)
    return path && { kind, name, path }
  }
  if (kind === 'claim') return parseClaimSource(name)
  return kind === 'cookie' && !TOKEN.test(name) ? undefined : { kind: kind as 'query' | 'form' | 'cookie', name }
}

/** Without dots, except in the URLs that some issuers take for names: others would be read as claims within claims. */
const CLAIM_NAME = /^(?:[\w:-]+|https?:\/\/\S+)$/

/**
 * A claim by its name, or by a JSON Pointer (RFC 6901) such as `/account/plan`. Both ways to write the name of one are the
 * same source.
 * @returns undefined for anything else
 */
export function parseClaimSource(text: string): Extract<Source, { readonly kind: 'claim' }> | undefined {
  const path = CLAIM_NAME.test(text) ? [text] : parsePointer(text)
  const [name = '', ...others] = path ?? []
  return path && { kind: 'claim', name: others.length === 0 && CLAIM_NAME.test(name) ? name : text, path }
}
