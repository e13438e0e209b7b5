/** Reads forms and JSON from a body, as far as all APIs agree on what they say. */
import type { Reading } from '../../../core/model/identity-source.ts'
import { waitAtMost } from '../../../core/runtime/sleep.ts'
import { foldCase } from '../policy/canonical-path.ts'
import { MAX_BODY_BYTES, MAX_JSON_BYTES, type ReceivedRequest } from '../received-request.ts'
import { AMBIGUOUS, findMember, NONE, readParameter, readText } from './reading.ts'

/** A form in UTF-7 would mean something else to an API that decodes it. */
const FORM = /^\s*application\/x-www-form-urlencoded\s*(?:;\s*(?:charset="?utf-8"?\s*)?)*$/i

/** No API is known to take these types for a form. */
const OTHER = new RegExp(
  '^\\s*(?:(?:audio|font|image|text|video)/[\\w.+-]+|application/(?:(?:[\\w.-]+\\+)?(?:json|xml|cbor)|octet-stream|pdf' +
    '|zip|gzip|graphql|x-ndjson|(?:x-)?protobuf|grpc(?:[+-][\\w+-]+)?))\\s*(?:;|$)',
  'i',
)
/** Some APIs look for these anywhere in the type, and some for the last of several types. */
const SIGNS_OF_FORM = /multipart|boundary|form|url|,/i

/** Frameworks look for it anywhere in the type (Laravel). */
const SIGN_OF_JSON = /json/i

/**
 * Reads a field of an urlencoded body of at most 8 KiB; the body can still be forwarded.
 * @returns ambiguous for a larger form, and one in another charset or coding than UTF-8; for every type that is not plainly
 * something else, such as multipart or none; for a body of another type that has such a field all the same, or is too
 * long to read, since some APIs (Bottle) require no type
 */
export async function readForm(request: ReceivedRequest, name: string): Promise<Reading> {
  const { headers, body } = request
  if (!body) return NONE
  const type = headers.get('Content-Type') ?? ''
  const isForm = FORM.test(type)
  if (!isForm && (!OTHER.test(type) || SIGNS_OF_FORM.test(type))) return AMBIGUOUS
  const text = await readBody(request)
  const reading = text === undefined ? AMBIGUOUS : readParameter(text, name)
  return isForm || reading.kind === 'none' ? reading : AMBIGUOUS
}

/** Reads a member where the type of the body says that it is JSON. */
export async function readTypedJson(request: ReceivedRequest, path: readonly string[]): Promise<Reading> {
  return isTypedJson(request) ? readJson(request, path) : NONE
}

function isTypedJson({ headers }: ReceivedRequest): boolean {
  return SIGN_OF_JSON.test(headers.get('Content-Type') ?? '')
}

/** Reads a parameter in a body alone, which may be a form or JSON. */
export async function readBodyParameter(request: ReceivedRequest, name: string): Promise<Reading> {
  const field = await readForm(request, name)
  return field.kind === 'none' ? readTypedJson(request, [name]) : field
}

/** Reads JSON of no such type as the form that it may be to some: `{"a":"&user=ada"}`. */
export async function readFormInJson(request: ReceivedRequest, name: string): Promise<Reading> {
  const text = isTypedJson(request) || !request.body ? undefined : await readBody(request, MAX_JSON_BYTES)
  return text === undefined ? NONE : readParameter(text, name)
}

/** Tests for a form or JSON, as its type says, that can be read. */
export async function hasPlainBody(request: ReceivedRequest): Promise<boolean> {
  const isJson = isTypedJson(request)
  const isPlain = isJson || FORM.test(request.headers.get('Content-Type') ?? '')
  const maxBytes = isJson ? MAX_JSON_BYTES : MAX_BODY_BYTES
  return isPlain && request.body !== null && (await readBody(request, maxBytes)) !== undefined
}

/**
 * Reads a string or an integer in a JSON body of at most 256 KiB, whatever its type: many APIs require none. The body can
 * still be forwarded.
 * @returns ambiguous where APIs may differ: for a body that is no JSON, a name that is repeated or differs only in case
 * and signs, and a value of another kind
 */
export async function readJson(request: ReceivedRequest, path: readonly string[]): Promise<Reading> {
  const { headers, body } = request
  if (!body) return NONE
  // RFC 8259 §8.1: UTF-8. An API that obeys another charset reads something else.
  const [, ...charsets] = (headers.get('Content-Type') ?? '').toLowerCase().split('charset')
  if (charsets.length > 1 || charsets.some((charset) => !/^="?utf-?8"?\s*(?:;|$)/.test(charset))) return AMBIGUOUS
  const text = await readBody(request, MAX_JSON_BYTES)
  // Invalid UTF-8 has been replaced by U+FFFD.
  if (text === undefined || text.includes('\ufffd') || !isSimple(text)) return AMBIGUOUS
  if (text === '') return NONE
  try {
    JSON.parse(text)
  } catch {
    return AMBIGUOUS
  }
  return scanMember(text, path)
}

/** A text of so many commas, colons and brackets would take longer than 10 ms to parse. */
const MAX_SIGNS = 20_000

function isSimple(text: string): boolean {
  let signs = 0
  if (text.length > MAX_SIGNS) for (const _ of text.matchAll(/[,:[{]/g)) if (++signs > MAX_SIGNS) return false
  return true
}

/** A body that the application has parsed means what the application sees, whatever was sent. */
export function readParsed(parsedBody: unknown, path: readonly string[], kind: 'form' | 'json'): Reading {
  if (typeof parsedBody !== 'object' || parsedBody === null) return AMBIGUOUS
  const value = findMember(parsedBody, path)
  if (value === undefined) return NONE
  return kind === 'json' ? readScalar(value) : typeof value === 'string' ? readText(value) : AMBIGUOUS
}

interface Container {
  readonly isArray: boolean
  /** Number of the pointer's tokens that lead to it; undefined if they do not. */
  readonly depth: number | undefined
  index: number
  hasFound: boolean
}

/** Matches a string, with the colon that makes a name of it; a bracket or comma; or a word. */
const LEXEME = /"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\],]|[^\s"{}[\],]+/g

/** Does not use the result of `JSON.parse`, which silently keeps the last of two members of one name. */
function scanMember(json: string, path: readonly string[]): Reading {
  const containers: Container[] = []
  // Number of the pointer's tokens that lead to the next value.
  let depth: number | undefined = 0
  let found: Reading = NONE
  const isElement = ({ isArray, depth, index }: Container) =>
    isArray && depth !== undefined && path[depth] === String(index)
  for (const [lexeme, colon] of json.matchAll(LEXEME)) {
    const inner = containers.at(-1)
    if (colon && inner) {
      const token = inner.depth === undefined ? undefined : path[inner.depth]
      const name = JSON.parse(lexeme.slice(0, -colon.length)) as string
      depth = undefined
      if (token === undefined || fold(name) !== fold(token)) continue
      if (inner.hasFound || name !== token) return AMBIGUOUS
      inner.hasFound = true
      depth = (inner.depth ?? 0) + 1
    } else if (lexeme === '{' || lexeme === '[') {
      if (depth === path.length) return AMBIGUOUS
      const container: Container = { isArray: lexeme === '[', depth, index: 0, hasFound: false }
      containers.push(container)
      depth = isElement(container) ? (depth ?? 0) + 1 : undefined
    } else if (lexeme === ',' && inner) {
      inner.index++
      depth = isElement(inner) ? (inner.depth ?? 0) + 1 : undefined
    } else if (lexeme === '}' || lexeme === ']') containers.pop()
    else if (depth === path.length) found = readScalar(isExact(lexeme) ? JSON.parse(lexeme) : undefined)
  }
  return found
}

/** Tests that all APIs read a scalar alike: 1, not 1.0 or 1e0. */
function isExact(lexeme: string): boolean {
  return /^(?:"|null$|(?:0|-?[1-9]\d{0,14})$)/.test(lexeme)
}

function readScalar(value: unknown): Reading {
  if (value === null) return NONE
  if (typeof value === 'number' && Number.isSafeInteger(value)) return { kind: 'value', value: String(value) }
  // A half of a pair of surrogates becomes something else on its way.
  return typeof value === 'string' && !/\p{Cs}/u.test(value) ? readText(value) : AMBIGUOUS
}

/** Go ignores the case of names, .NET and Jackson can; protocol buffers take `user_id` and `userId` for one. */
function fold(name: string): string {
  return foldCase(name).replace(/[^\p{L}\p{N}]/gu, '')
}

/** A slower body is not read: its sender could keep a request undecided for as long as it likes. */
const BODY_TIMEOUT_MS = 10_000

/** Each reading copies the body, and may wait for it: policies and rules share the first. */
const readings = new WeakMap<
  ReceivedRequest,
  { readonly maxBytes: number; readonly text: Promise<string | undefined> }
>()

/** @returns undefined for a longer body, one in a coding that only the API can decode, and one that breaks off or stalls */
export async function readBody(request: ReceivedRequest, maxBytes = MAX_BODY_BYTES): Promise<string | undefined> {
  let reading = readings.get(request)
  // What was read of a shorter one is all of it.
  if (reading && reading.maxBytes < maxBytes && (await reading.text) === undefined) reading = undefined
  if (!reading) {
    reading = { maxBytes, text: readCopy(request, maxBytes) }
    readings.set(request, reading)
  }
  const text = await reading.text
  return text !== undefined && text.length > maxBytes ? undefined : text
}

async function readCopy(request: ReceivedRequest, maxBytes: number): Promise<string | undefined> {
  const { headers } = request
  if (headers.has('Content-Encoding') || Number(headers.get('Content-Length') ?? 0) > maxBytes) return undefined
  const reading = readUpTo(maxBytes, request.clone(maxBytes).body).catch(() => undefined)
  return waitAtMost(reading, BODY_TIMEOUT_MS)
}

/** @returns undefined if the body is longer; another reader can then still read the rest */
export async function readUpTo(
  maxBytes: number,
  body: ReadableStream<Uint8Array> | null,
  fatal = false,
): Promise<string | undefined> {
  // A byte order mark stays: an API takes it for part of the text.
  const decoder = new TextDecoder('utf-8', { fatal, ignoreBOM: true })
  let bytes = 0
  let text = ''
  const reader = body?.getReader()
  for (let chunk = await reader?.read(); chunk?.value; chunk = await reader?.read()) {
    bytes += chunk.value.length
    if (bytes > maxBytes) {
      // Not awaited: by the Streams standard, this ends only when the other reader is done with its branch too.
      reader?.cancel().catch(() => {})
      return undefined
    }
    text += decoder.decode(chunk.value, { stream: true })
  }
  return text + decoder.decode()
}
