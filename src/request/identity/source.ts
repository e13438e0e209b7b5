import type { IdentitySource } from '../../model/policy.ts'

/** A kind that tells one caller from others. The rest is the same for all callers, or only the application can tell it. */
export type CallerKind = Exclude<IdentitySource['kind'], 'route' | 'global' | 'application'>

interface SourceKind {
  /** Reads the name in `<kind>:<name>`; left out for a kind that has no name. */
  readonly parse?: (name: string) => IdentitySource | undefined
  /** Words for it in answers to clients. */
  readonly describe: (name: string) => string
  readonly isCaller?: true
  /** People may type it, each time in another case. */
  readonly isFoldable?: true
  /**
   * A client can write a body so that nobody reads it for certain. Rules are looked up before it is read: they know it by
   * its digest only, where a policy counts by it.
   */
  readonly isInBody?: true
  /** Rules may name many callers by a part of it. */
  readonly isNamedInPart?: true
}

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*.^_`|~0-9A-Za-z-]+$/

/** Everything that policies can count by. What must know all kinds is made from this table, or has an entry for each. */
export const SOURCE_KINDS: Readonly<Record<IdentitySource['kind'], SourceKind>> = {
  token: { describe: () => 'Authorization', isCaller: true },
  ip: { describe: () => 'ip', isCaller: true },
  header: {
    parse: (name) => (TOKEN.test(name) ? { kind: 'header', name: name.toLowerCase() } : undefined),
    describe: (name) => `the field ${name}`,
    isCaller: true,
    isFoldable: true,
    isNamedInPart: true,
  },
  query: {
    parse: (name) => ({ kind: 'query', name }),
    describe: (name) => `the query parameter ${name}`,
    isCaller: true,
    isFoldable: true,
  },
  cookie: {
    parse: (name) => (TOKEN.test(name) ? { kind: 'cookie', name } : undefined),
    describe: (name) => `the cookie ${name}`,
    isCaller: true,
    isFoldable: true,
  },
  form: {
    parse: (name) => ({ kind: 'form', name }),
    describe: (name) => `the form field ${name}`,
    isCaller: true,
    isFoldable: true,
    isInBody: true,
  },
  json: {
    parse(name) {
      const path = parsePointer(name)
      return path && { kind: 'json', name, path }
    },
    describe: (name) => `${name} in a JSON body`,
    isCaller: true,
    isFoldable: true,
    isInBody: true,
  },
  claim: { parse: parseClaimSource, describe: () => 'claim', isCaller: true, isFoldable: true, isNamedInPart: true },
  route: { describe: () => 'route' },
  global: { describe: () => 'global' },
  application: { parse: () => undefined, describe: () => 'who sends them', isFoldable: true },
}

export const CALLER_KIND_NAMES = Object.keys(SOURCE_KINDS).filter(isCallerKind)

export function isCallerKind(kind: string): kind is CallerKind {
  return isKind(kind) && SOURCE_KINDS[kind].isCaller === true
}

function isKind(kind: string): kind is IdentitySource['kind'] {
  return Object.hasOwn(SOURCE_KINDS, kind)
}

export function isInBody({ kind }: IdentitySource): boolean {
  return SOURCE_KINDS[kind].isInBody === true
}

export function isFoldable({ kind }: IdentitySource): boolean {
  return SOURCE_KINDS[kind].isFoldable === true
}

/** Whether these tell no caller from another: what is counted by them is counted for everyone. */
export function isShared(sources: readonly IdentitySource[]): boolean {
  return sources.every(({ kind }) => kind === 'global' || kind === 'route')
}

/** In one way only: names of fields in lower case. */
export function formatSource(source: IdentitySource): string {
  return 'name' in source ? `${source.kind}:${source.name}` : source.kind
}

export function describeSource(source: IdentitySource): string {
  return SOURCE_KINDS[source.kind].describe('name' in source ? source.name : '')
}

export const BY_EXPECTED =
  '"token", "ip", "route", "global", "header:<name>", "query:<name>", "form:<name>", "cookie:<name>", "json:</pointer>" or "claim:<name or /pointer>", joined with "+"'

/**
 * Reads what a policy counts by, e.g. `token+route`.
 * @returns undefined for anything but what `BY_EXPECTED` says
 */
export function parseBy(text: string): readonly IdentitySource[] | undefined {
  const sources = text.split('+').map((part) => parseSource(part.trim()))
  return sources.every((source) => source !== undefined) ? sources : undefined
}

/** One of them, e.g. `header:x-tenant`; undefined for anything else. */
export function parseSource(text: string): IdentitySource | undefined {
  const [, kind = '', name] = /^(\w+)(?::(\S+))?$/.exec(text) ?? []
  if (!isKind(kind)) return undefined
  const { parse } = SOURCE_KINDS[kind]
  if (name !== undefined) return parse?.(name)
  return parse ? undefined : ({ kind } as IdentitySource)
}

/** The name in `header:<name>`, in lower case; undefined for anything else. */
export function parseHeaderSource(text: string): string | undefined {
  const source = parseSource(text)
  return source?.kind === 'header' ? source.name : undefined
}

/** Without dots, except in the URLs that some issuers take for names: others would be read as claims within claims. */
const CLAIM_NAME = /^(?:[\w:-]+|https?:\/\/\S+)$/

/**
 * A claim by its name, or by a JSON Pointer (RFC 6901) such as `/account/plan`. Both ways to write the name of one are the
 * same source.
 * @returns undefined for anything else
 */
export function parseClaimSource(text: string): Extract<IdentitySource, { readonly kind: 'claim' }> | undefined {
  const path = CLAIM_NAME.test(text) ? [text] : parsePointer(text)
  const [name = '', ...others] = path ?? []
  return path && { kind: 'claim', name: others.length === 0 && CLAIM_NAME.test(name) ? name : text, path }
}

/**
 * Reads a JSON Pointer (RFC 6901) to a member, e.g. `/user/id`.
 * @returns undefined for anything else, and for the pointer to the whole
 */
export function parsePointer(text: string): readonly string[] | undefined {
  if (!/^(?:\/(?:[^~/]|~[01])*)+$/.test(text)) return undefined
  const tokens = text.slice(1).split('/')
  return tokens.map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}
