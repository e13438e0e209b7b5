import type { IdentitySource } from '../../model/policy.ts'

/** A kind that distinguishes callers. The others are the same for all callers, or known to the application alone. */
export type CallerKind = Exclude<IdentitySource['kind'], 'route' | 'global' | 'application'>

interface SourceKind {
  /** Reads the name in `<kind>:<name>`; omitted for a kind without one. */
  readonly parse?: (name: string) => IdentitySource | undefined
  /** Names it in responses; the kind by default. */
  readonly describe?: (name: string) => string
  readonly isCaller?: true
  /** It may be typed by hand, in any case. */
  readonly isFoldable?: true
  /** A client can write a body that every parser reads differently: rules know it by its digest only. */
  readonly isInBody?: true
  /** Rules may name many callers by a part of it. */
  readonly isNamedInPart?: true
}

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*.^_`|~0-9A-Za-z-]+$/

const NAMED = { isCaller: true, isFoldable: true } as const satisfies SourceKind

/** Everything that policies can count by. Code that must know all kinds is derived from this table. */
export const SOURCE_KINDS: Readonly<Record<IdentitySource['kind'], SourceKind>> = {
  token: { describe: () => 'Authorization', isCaller: true },
  ip: { isCaller: true },
  header: {
    ...NAMED,
    parse: (name) => (TOKEN.test(name) ? { kind: 'header', name: name.toLowerCase() } : undefined),
    describe: (name) => `the header ${name}`,
    isNamedInPart: true,
  },
  query: { ...NAMED, parse: (name) => ({ kind: 'query', name }), describe: (name) => `the query parameter ${name}` },
  cookie: {
    ...NAMED,
    parse: (name) => (TOKEN.test(name) ? { kind: 'cookie', name } : undefined),
    describe: (name) => `the cookie ${name}`,
  },
  form: {
    ...NAMED,
    parse: (name) => ({ kind: 'form', name }),
    describe: (name) => `the form field ${name}`,
    isInBody: true,
  },
  json: {
    ...NAMED,
    parse(name) {
      const path = parsePointer(name)
      return path && { kind: 'json', name, path }
    },
    describe: (name) => `${name} in a JSON body`,
    isInBody: true,
  },
  claim: { ...NAMED, parse: parseClaimSource, isNamedInPart: true },
  route: {},
  global: {},
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

/** Tests that the sources distinguish no callers: the counts are then those of everyone. */
export function isShared(sources: readonly IdentitySource[]): boolean {
  return sources.every(({ kind }) => kind === 'global' || kind === 'route')
}

export function formatSource(source: IdentitySource): string {
  return 'name' in source ? `${source.kind}:${source.name}` : source.kind
}

export function describeSource(source: IdentitySource): string {
  return SOURCE_KINDS[source.kind].describe?.('name' in source ? source.name : '') ?? source.kind
}

export const BY_EXPECTED =
  '"token", "ip", "route", "global", "header:<name>", "query:<name>", "form:<name>", "cookie:<name>", "json:</pointer>" or "claim:<name or /pointer>", joined with "+"'

export function parseBy(text: string): readonly IdentitySource[] | undefined {
  const sources = text.split('+').map((part) => parseSource(part.trim()))
  return sources.every((source) => source !== undefined) ? sources : undefined
}

/** Reads one source, e.g. `header:x-tenant`; undefined for anything else. */
export function parseSource(text: string): IdentitySource | undefined {
  const [, kind = '', name] = /^(\w+)(?::(\S+))?$/.exec(text) ?? []
  if (!isKind(kind)) return undefined
  const { parse } = SOURCE_KINDS[kind]
  if (name !== undefined) return parse?.(name)
  return parse ? undefined : ({ kind } as IdentitySource)
}

/** Dots are only allowed in the URLs that some issuers use as names: others would be read as nested claims. */
const CLAIM_NAME = /^(?:[\w:-]+|https?:\/\/\S+)$/

/** Reads a claim's name or JSON Pointer (RFC 6901), such as `/account/plan`. Two spellings of one claim are the same source. */
export function parseClaimSource(text: string): Extract<IdentitySource, { readonly kind: 'claim' }> | undefined {
  const path = CLAIM_NAME.test(text) ? [text] : parsePointer(text)
  const [name = '', ...others] = path ?? []
  return path && { kind: 'claim', name: others.length === 0 && CLAIM_NAME.test(name) ? name : text, path }
}

/** Reads a JSON Pointer (RFC 6901) to a member, e.g. `/user/id`; undefined for anything else, also for the whole document. */
export function parsePointer(text: string): readonly string[] | undefined {
  if (!/^(?:\/(?:[^~/]|~[01])*)+$/.test(text)) return undefined
  const tokens = text.slice(1).split('/')
  return tokens.map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}
