/**
 * Finds all values that some API may read from an ambiguous request. A caller who is blocked must not get in by sending
 * its key in a way that only the API understands: so a block applies if any reading of the request is the blocked one,
 * while limits count an ambiguous request as having no identity.
 */
import type { IdentitySource, Reading } from '../../core/model/identity-source.ts'
import { readAuthorization } from '../../http/request/identity/authorization.ts'
import { readBody, readBodyParameter } from '../../http/request/identity/body.ts'
import { findSignedToken, SIGNED_TOKEN } from '../../http/request/identity/claims.ts'
import { findCookiesAlike, readCookieValue } from '../../http/request/identity/cookie.ts'
import type { IdentityInput } from '../../http/request/identity/identify.ts'
import { decodeU, findSpellings, MAX_CHARACTERS, readParameter, readText } from '../../http/request/identity/reading.ts'

/** Where there are many values, APIs take one of the first or the last. */
const MAX_AT_EACH_END = 4

/**
 * Finds what some API may take an ambiguous value for. A caller that is blocked must not get in by sending another value,
 * or anything else, in addition to the one that it is known by; a caller that is admitted is known by one value only.
 * @returns undefined if that may be anything
 */
export async function findPossibleValues(
  source: IdentitySource,
  input: IdentityInput,
): Promise<readonly string[] | undefined> {
  const readings = await findPossibleReadings(source, input)
  const values = readings?.flatMap((reading) => (reading.kind === 'value' ? [reading.value] : []))
  return values && [...new Set(values)].filter(({ length }) => length <= MAX_CHARACTERS)
}

function findPossibleReadings(source: IdentitySource, input: IdentityInput) {
  const { headers } = input.request
  switch (source.kind) {
    case 'token':
      return findCredentials(headers.get('Authorization') ?? '').flatMap(readCredential)
    case 'header': {
      const field = headers.get(source.name) ?? ''
      return [field, ...splitPieces(field, /,/)].map(readText)
    }
    case 'query':
    case 'cookie':
      return findParameterValues(source, input)
    case 'claim':
      return readPossibleClaims(source.path, input)
    default:
      return undefined
  }
}

/** Reads a claim of each token that some API may find in a header that does not hold exactly one. Each is verified. */
async function readPossibleClaims(path: readonly string[], { request, readClaim, context }: IdentityInput) {
  const field = request.headers.get('Authorization')
  if (!readClaim || !field) return []
  // What stands where a token belongs has been verified before.
  const known = findSignedToken(field)
  const tokens = findPossibleTokens(field).filter((token) => token !== known)
  // A context verifies one token only.
  const createContext = () => ({ waitUntil: (work: Promise<unknown>) => context.waitUntil(work) })
  return Promise.all(tokens.map((token) => readClaim(path, `Bearer ${token}`, createContext())))
}

/** Finds the signed tokens that some API may read in an Authorization header. */
export function findPossibleTokens(field: string): readonly string[] {
  // What follows the signature, some libraries ignore.
  const tokens = findCredentials(field).map((piece) => piece.split('.', 3).join('.'))
  return [...new Set(tokens)].filter((token) => SIGNED_TOKEN.test(token)).slice(0, 2 * MAX_AT_EACH_END)
}

/**
 * Finds what some API may take for a credential: it may end at ";" as well, stand in quotes with escapes after `token=`,
 * and "Bearer " may be cut out wherever it stands.
 */
function findCredentials(field: string): readonly string[] {
  const bare = field.replace(/bearer\s?|\\/gi, '')
  const pieces = [field, bare, bare.replaceAll('"', '')].flatMap((text) => splitPieces(text, /[\s\p{Cc},;"]+|bearer/iu))
  // The parts that decoders of base64 skip: words, and all that follows the scheme.
  const wholes = [...splitPieces(field, /\s+/), field.replace(/^\s*\S+\s+/, '')]
  const credentials = [...pieces, ...wholes]
    .filter(({ length }) => length <= MAX_CHARACTERS)
    .map((piece) => piece.replace(/^(?:(?:token)?=)+/i, ''))
  return [...new Set([...new Set(credentials)].flatMap(decodeAlike))]
}

/** Writes a piece as decoders of base64 may take it: at padding they stop, or go on; what is no letter they skip. */
function decodeAlike(piece: string): readonly string[] {
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

/** Finds all that some parser finds under a name. White space around "=" means nothing to most. */
function findCookieValues(field: string, name: string): readonly Reading[] {
  const tight = field
    .split('=')
    .map((part) => part.trim())
    .join('=')
  const isMeant = (part: string) => part.trim().startsWith(`${name}=`)
  const cookies = [...new Set([field, tight])].flatMap((text) => [
    ...COOKIE_SEPARATORS.flatMap((separators) =>
      // More than are read: the name as it is spelled has to do.
      takeEnds(findCookiesAlike(text, separators, name) ?? text.split(separators).filter(isMeant)),
    ),
    ...takeEnds((text.match(COOKIE) ?? []).filter(isMeant)),
  ])
  const values = takeEnds([...new Set(cookies.map(readAfterEquals))].filter(({ length }) => length <= MAX_CHARACTERS))
  return [...new Set(values.flatMap(findMeanings))].map(readCookieValue)
}

/** Reads a value with its quotes, without them, and without the escapes of Python and RFC 2109; whole, or its beginning. */
function findMeanings(value: string): readonly string[] {
  const bytes = value.replace(/[\x80-\uffff]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`)
  const bare = bytes.replace(/^"|"$/g, '')
  const unescaped = bare.replace(/\\([0-3][0-7]{2}|.)/g, (_, escaped: string) =>
    escaped.length > 1 ? String.fromCharCode(Number.parseInt(escaped, 8)) : escaped,
  )
  // Some end a value where it has spaces or control characters, or "&".
  const meanings = [bytes, bare, unescaped].flatMap((text) => [text, text.split(/[\s,&]|%(?:[01]|26)/, 1)[0] ?? ''])
  return unescaped.split('.', 3).length < 3 ? meanings : [...meanings, ...meanings.map(stripToToken)]
}

/** Keeps of a signed token what is left where decoders skip the rest. */
function stripToToken(text: string): string {
  const decoded = text.replace(/%([\da-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return decoded.replace(/[^\w.-]+/g, '')
}

/** Reads a credential after any scheme, or none. */
function readCredential(piece: string): readonly Reading[] {
  // Some libraries ignore what follows the signature of a token.
  const three = piece.split('.', 3).join('.')
  const all = [readAuthorization(piece), readAuthorization(`Basic ${piece}`)]
  return three === piece ? all : [...all, readAuthorization(three)]
}

/** @returns undefined if a body mentions the parameter, and APIs may differ about what it says */
async function findParameterValues(source: IdentitySource & { name: string }, input: IdentityInput) {
  const { kind, name } = source
  const { request, mergesParameters } = input
  const inQuery = () => takeEnds(findParameters(request.url, name)).map(readValue)
  const inCookies = () => findCookieValues(request.headers.get('Cookie') ?? '', name)
  if (!mergesParameters) return kind === 'query' ? inQuery() : inCookies()
  const found = [...inQuery(), ...inCookies()]
  // One block must not refuse all uploads: a body that is too long to read says nothing.
  const body = request.body ? await readBody(request) : undefined
  if (body === undefined) return found
  const inBody = await readBodyParameter(request, name)
  if (inBody.kind === 'value') return [...found, inBody]
  return inBody.kind === 'ambiguous' && mayMention(body, name) ? undefined : found
}

function mayMention(body: string, name: string): boolean {
  const fold = (text: string) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '')
  return /[%\\]/.test(body) || fold(body).includes(fold(name))
}

function findParameters(url: string, name: string): readonly string[] {
  const parts = new URL(url).search.slice(1).split(/[&;]/)
  // More than are read: the name as it is spelled has to do.
  return findSpellings(parts, name) ?? parts.filter((part) => part.startsWith(`${name}=`))
}

/** Some APIs end a value at a control character. */
function readValue(parameter: string): Reading {
  const [value = ''] = decodeU(readAfterEquals(parameter)).split(/%(?:[01]|7f)/i, 1)
  return readParameter(`k=${value}`, 'k')
}

function readAfterEquals(parameter: string): string {
  return parameter.slice(parameter.indexOf('=') + 1)
}

function splitPieces(field: string, separators: RegExp, isMeant = (piece: string) => piece !== ''): readonly string[] {
  return takeEnds(field.split(separators).filter(isMeant))
}

function takeEnds(all: readonly string[]): readonly string[] {
  return all.length <= 2 * MAX_AT_EACH_END ? all : [...all.slice(0, MAX_AT_EACH_END), ...all.slice(-MAX_AT_EACH_END)]
}
