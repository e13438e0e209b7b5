/** Everything that policies can count by, as one table. */
import { listNames } from '../runtime/lists.ts'

/** The value of an identity source in one request. */
export type Reading =
  | { readonly kind: 'value'; readonly value: string }
  | { readonly kind: 'none' }
  /** Ambiguous: two parsers may read it differently. Such a value must not exempt a caller from a policy. */
  | { readonly kind: 'ambiguous' }

export type IdentitySource =
  | { readonly kind: 'token' | 'ip' | 'route' | 'global' }
  | { readonly kind: 'header' | 'query' | 'form' | 'cookie'; readonly name: string }
  /** `name` is the pointer as configured. A claim of a verified token, if it is not nested, has its name instead. */
  | { readonly kind: 'json' | 'claim'; readonly name: string; readonly path: readonly string[] }
  /** A function of the application. */
  | { readonly kind: 'application'; readonly tell: (context: never) => Promise<Reading> }

interface SourceKind<Source extends IdentitySource> {
  /** Its value belongs to one caller, to all callers alike, or to whomever the application says. */
  readonly belongsTo: 'caller' | 'everyone' | 'application'
  /** The part after the colon in `<kind>:<name>`; omitted for a kind without a name. */
  readonly name?: string
  /** Reads that name. */
  readonly parse?: (name: string) => Source | undefined
  /** Set for a kind of which a caller may have several, each with a name and a value. */
  readonly noun?: string
  readonly example?: string
  /** Its name in responses; by default the noun and name, or the kind. */
  readonly description?: string
  /** It may be typed by hand, in any case. */
  readonly isFoldable?: true
  /** A client can write a body that every parser reads differently: rules know it by its digest only. */
  readonly isInBody?: true
  /** Rules may name many callers by a part of it. */
  readonly isNamedInPart?: true
}

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*.^_`|~0-9A-Za-z-]+$/

const NAMED = { belongsTo: 'caller', name: 'name', isFoldable: true } as const

/** Everything that policies can count by. Code that must know all kinds is derived from this table. */
const TABLE = {
  token: { belongsTo: 'caller', description: 'Authorization' },
  ip: { belongsTo: 'caller' },
  route: { belongsTo: 'everyone' },
  global: { belongsTo: 'everyone' },
  header: {
    ...NAMED,
    noun: 'header',
    example: 'x-api-key=k-123',
    parse: (name) => (TOKEN.test(name) ? { kind: 'header', name: name.toLowerCase() } : undefined),
    isNamedInPart: true,
  },
  query: { ...NAMED, noun: 'query parameter', example: 'key=k-123', parse: (name) => ({ kind: 'query', name }) },
  form: {
    ...NAMED,
    noun: 'form field',
    example: 'user=alice',
    parse: (name) => ({ kind: 'form', name }),
    isInBody: true,
  },
  cookie: {
    ...NAMED,
    noun: 'cookie',
    example: 'sid=abc',
    parse: (name) => (TOKEN.test(name) ? { kind: 'cookie', name } : undefined),
  },
  json: {
    ...NAMED,
    name: '/pointer',
    noun: 'JSON member',
    example: '/user/id=42',
    parse(name) {
      const path = parsePointer(name)
      return path && { kind: 'json', name, path }
    },
    isInBody: true,
  },
  claim: { ...NAMED, name: 'name or /pointer', parse: parseClaimSource, isNamedInPart: true },
  application: { belongsTo: 'application', description: 'identity', parse: () => undefined, isFoldable: true },
} as const satisfies { readonly [Kind in IdentitySource['kind']]: SourceKind<IdentitySource & { readonly kind: Kind }> }

type SourceTable = typeof TABLE
type KindsWith<Row> = { [Kind in keyof SourceTable]: SourceTable[Kind] extends Row ? Kind : never }[keyof SourceTable]

type ParsedKind = KindsWith<{ readonly parse: unknown }>
type BareKind = Exclude<keyof SourceTable, ParsedKind>

/** A source as it is written: see `parseSource`. */
export type SourceText = BareKind | `${Exclude<ParsedKind, 'application'>}:${string}`

/** A kind that distinguishes callers, as far as they are known without the application. */
export type CallerKind = KindsWith<{ readonly belongsTo: 'caller' }>
/** A kind of which a caller may have several, each with a name and a value. */
export type PairKind = KindsWith<{ readonly noun: string }>
/** A kind that distinguishes callers by a name and a value. */
export type NamedKind = CallerKind & KindsWith<{ readonly name: string }>
export type CallerSource = IdentitySource & { readonly kind: CallerKind }

export const SOURCE_KINDS: {
  readonly [Kind in keyof SourceTable]: SourceKind<IdentitySource & { readonly kind: Kind }> &
    (Kind extends PairKind ? { readonly noun: string; readonly name: string; readonly example: string } : unknown)
} = TABLE

const KIND_NAMES = listNames(SOURCE_KINDS)
export const CALLER_KIND_NAMES = KIND_NAMES.filter(isCallerKind)
export const PAIR_KIND_NAMES = CALLER_KIND_NAMES.filter(isPairKind)

export function isCallerKind(kind: string): kind is CallerKind {
  return isKind(kind) && SOURCE_KINDS[kind].belongsTo === 'caller'
}

export function isCallerSource(source: IdentitySource): source is CallerSource {
  return isCallerKind(source.kind)
}

function isPairKind(kind: CallerKind): kind is PairKind {
  return SOURCE_KINDS[kind].noun !== undefined
}

/** Tests for a kind that is not followed by a name. */
function isBareKind(kind: keyof SourceTable): kind is BareKind {
  return SOURCE_KINDS[kind].parse === undefined
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
  return sources.every(({ kind }) => SOURCE_KINDS[kind].belongsTo === 'everyone')
}

export function formatSource(source: IdentitySource): string {
  return 'name' in source ? `${source.kind}:${source.name}` : source.kind
}

export function describeSource(source: IdentitySource): string {
  const { noun, description = source.kind } = SOURCE_KINDS[source.kind]
  return 'name' in source ? `the ${noun ?? source.kind} ${source.name}` : description
}

/** Lists how sources of these kinds are written, such as `"ip", "header:<name>" or "claim:<name>"`. */
export function formatKinds(kinds: readonly IdentitySource['kind'][]): string {
  const forms = kinds.map((kind) => `"${kind}${SOURCE_KINDS[kind].name ? `:<${SOURCE_KINDS[kind].name}>` : ''}"`)
  return `${forms.slice(0, -1).join(', ')} or ${forms.at(-1)}`
}

export const BY_EXPECTED = `${formatKinds(KIND_NAMES.filter((kind) => SOURCE_KINDS[kind].belongsTo !== 'application'))}, joined with "+"`

export function parseBy(text: string): readonly IdentitySource[] | undefined {
  const sources = text.split('+').map((part) => parseSource(part.trim()))
  return sources.every((source) => source !== undefined) ? sources : undefined
}

/** Reads one source, e.g. `header:x-tenant`; undefined for anything else. */
export function parseSource(text: string): IdentitySource | undefined {
  const [, kind = '', name] = /^(\w+)(?::(\S+))?$/.exec(text) ?? []
  if (!isKind(kind)) return undefined
  if (name !== undefined) return SOURCE_KINDS[kind].parse?.(name)
  return isBareKind(kind) ? { kind } : undefined
}

/** Dots are only allowed in the URLs that some issuers use as names: others would be read as nested claims. */
const CLAIM_NAME = /^(?:[\w:-]+|https?:\/\/\S+)$/

/** Reads a claim's name or JSON Pointer (RFC 6901), such as `/account/plan`. Two spellings of one claim are the same source. */
export function parseClaimSource(text: string): (IdentitySource & { readonly kind: 'claim' }) | undefined {
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
