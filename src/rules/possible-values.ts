import type { IdentitySource, Reading } from '../model/policy.ts'
import { readAuthorization } from '../request/identity/authorization.ts'
import { cookiesAlike, readCookie, readCookieValue } from '../request/identity/cookie.ts'
import { type IdentityInput, readIdentitySource } from '../request/identity/identify.ts'
import { decodeU, findSpellings, MAX_CHARACTERS, readParameter, readText } from '../request/identity/reading.ts'
import type { ReceivedRequest } from '../request/received-request.ts'

/** Of many, APIs take one of the first or the last. */
const MOST_OF_EACH = 4

/** Kinds that `valuesIn` finds values of. */
const IN_FIELDS: Readonly<Record<IdentitySource['kind'], boolean>> = {
  token: true,
  header: true,
  query: true,
  cookie: true,
  ip: false,
  form: false,
  json: false,
  claim: false,
  route: false,
  global: false,
  application: false,
}

export function isInFields({ kind }: IdentitySource): boolean {
  return IN_FIELDS[kind]
}

/** Reads at once what else is read after its code has been loaded. */
export function readAtOnce(source: IdentitySource, subject: IdentityInput): Reading | Promise<Reading> {
  return source.kind === 'cookie'
    ? readCookie(subject.request.headers.get('Cookie'), source.name)
    : readIdentitySource(source, subject)
}

/**
 * What some API may take a spoilt value for. A caller that is kept out must not get in by sending another value, or
 * anything else, beside the one that it is known by; whoever is let in is known by one value only.
 */
export function findPossibleValues(source: IdentitySource, { headers, url }: ReceivedRequest): readonly string[] {
  switch (source.kind) {
    case 'token':
      return collectValues(credentialsIn(headers.get('Authorization') ?? '').flatMap(readCredential))
    case 'header':
      return collectValues(splitPieces(headers.get(source.name) ?? '', /,/).map(readText))
    case 'query':
      return collectValues(ends(findParameters(url, source.name)).map(readValue))
    case 'cookie':
      return collectValues(cookieValuesIn(headers.get('Cookie') ?? '', source.name))
    case 'ip':
    case 'form':
    case 'json':
    case 'claim':
    case 'route':
    case 'global':
    case 'application':
      return []
  }
}

/** The tokens that some API may read in an Authorization field, as far as they may be signed ones. */
export function findPossibleTokens(field: string): readonly string[] {
  // What follows the signature, some libraries ignore.
  const tokens = credentialsIn(field).map((piece) => piece.split('.', 3).join('.'))
  return [...new Set(tokens)].filter((token) => /^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)).slice(0, 2 * MOST_OF_EACH)
}

/**
 * What some API may take for a credential: it may end at ";" as well, stand in quotes with escapes after `token=`, and
 * "Bearer " may be cut out wherever it stands.
 */
function credentialsIn(field: string): readonly string[] {
  const bare = field.replace(/bearer\s?|\\/gi, '')
  const pieces = [field, bare, bare.replaceAll('"', '')].flatMap((text) => splitPieces(text, /[\s\p{Cc},;"]+|bearer/iu))
  // Whatever of it decoders of base64 skip: words, and all that follows the scheme.
  const wholes = [...splitPieces(field, /\s+/), field.replace(/^\s*\S+\s+/, '')]
  const credentials = [...pieces, ...wholes]
    .filter(({ length }) => length <= MAX_CHARACTERS)
    .map((piece) => piece.replace(/^(?:(?:token)?=)+/i, ''))
  return [...new Set([...new Set(credentials)].flatMap(decodedAlike))]
}

/** What some decoder of base64 may take for the same: at padding they stop, or go on; what is no letter they skip. */
function decodedAlike(piece: string): readonly string[] {
  const letters = piece.replace(/[^\w.+/=-]+/g, '')
  const ended = letters
    .split('.')
    .map((part) => part.split('=', 1)[0])
    .join('.')
  return [piece, ended, letters.replaceAll('=', '')]
}

/** Where some parser begins another cookie. */
const COOKIE_SEPARATORS = [/;/, /[;,]/, /[;,\s"]+/]
/** A cookie as Python finds it, at any space. */
const COOKIE = /(?<![^\s;,="])[^\s;,="]+=(?:"(?:[^\\"]|\\.)*"|[^\s;,"]*)/g

/** All that some parser finds in a field under a name. White space around "=" means nothing to most. */
function cookieValuesIn(field: string, name: string): readonly Reading[] {
  const tight = field
    .split('=')
    .map((part) => part.trim())
    .join('=')
  const isMeant = (part: string) => part.trim().startsWith(`${name}=`)
  const cookies = [...new Set([field, tight])].flatMap((text) => [
    ...COOKIE_SEPARATORS.flatMap((separators) =>
      // More than are read: the name as it is spelled has to do.
      ends(cookiesAlike(text, separators, name) ?? text.split(separators).filter(isMeant)),
    ),
    ...ends((text.match(COOKIE) ?? []).filter(isMeant)),
  ])
  const values = ends([...new Set(cookies.map(valueIn))].filter(({ length }) => length <= MAX_CHARACTERS))
  return [...new Set(values.flatMap(findMeanings))].map(readCookieValue)
}

/** With its quotes, without them, and without the escapes that Python and RFC 2109 have in them; whole, or its beginning. */
function findMeanings(value: string): readonly string[] {
  const bytes = value.replace(/[\x80-\uffff]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`)
  const bare = bytes.replace(/^"|"$/g, '')
  const unescaped = bare.replace(/\\([0-3][0-7]{2}|.)/g, (_, said: string) =>
    said.length > 1 ? String.fromCharCode(Number.parseInt(said, 8)) : said,
  )
  // Some end a value where it has spaces or control characters.
  const meanings = [bytes, bare, unescaped].flatMap((text) => [text, text.split(/[\s,]|%[01]/, 1)[0] ?? ''])
  return unescaped.split('.', 3).length < 3 ? meanings : [...meanings, ...meanings.map(stripToToken)]
}

/** Of a signed token, what is left of it where decoders skip the rest. */
function stripToToken(text: string): string {
  const decoded = text.replace(/%([\da-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return decoded.replace(/[^\w.-]+/g, '')
}

/** Whatever comes before it: another scheme, or none. */
function readCredential(piece: string): readonly Reading[] {
  // Some libraries ignore what follows the signature of a token.
  const three = piece.split('.', 3).join('.')
  const all = [readAuthorization(piece), readAuthorization(`Basic ${piece}`)]
  return three === piece ? all : [...all, readAuthorization(three)]
}

function findParameters(url: string, name: string): readonly string[] {
  const parts = new URL(url).search.slice(1).split(/[&;]/)
  // More than are read: the name as it is spelled has to do.
  return findSpellings(parts, name) ?? parts.filter((part) => part.startsWith(`${name}=`))
}

/** Some end a value at a control character. */
function readValue(parameter: string): Reading {
  const [value = ''] = decodeU(valueIn(parameter)).split(/%(?:[01]|7f)/i, 1)
  return readParameter(`k=${value}`, 'k')
}

function valueIn(parameter: string): string {
  return parameter.slice(parameter.indexOf('=') + 1)
}

function splitPieces(field: string, separators: RegExp, isMeant = (piece: string) => piece !== ''): readonly string[] {
  return ends(field.split(separators).filter(isMeant))
}

function ends(all: readonly string[]): readonly string[] {
  return all.length <= 2 * MOST_OF_EACH ? all : [...all.slice(0, MOST_OF_EACH), ...all.slice(-MOST_OF_EACH)]
}

function collectValues(readings: readonly Reading[]): readonly string[] {
  const values = readings.flatMap((reading) => (reading.kind === 'value' ? [reading.value] : []))
  return [...new Set(values)].filter(({ length }) => length <= MAX_CHARACTERS)
}
