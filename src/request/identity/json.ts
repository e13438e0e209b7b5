import type { Reading } from '../../model/policy.ts'
import { foldCase } from '../policy/canonical-path.ts'
import type { ReceivedRequest } from '../received-request.ts'
import { readBody } from './body.ts'
import { NONE, readText, SPOILT } from './reading.ts'

/**
 * A string or an integer in a JSON body of at most 8 KiB, whatever its type: many APIs ask for none. The body can still be
 * proxied.
 * @returns spoilt for what APIs may read in different ways: a body that is no JSON, a name that is repeated or differs only
 * in case and signs, or a value of another kind
 */
export async function readMember(request: ReceivedRequest, path: readonly string[]): Promise<Reading> {
  const { headers, body, parsedBody } = request
  if (parsedBody !== undefined) return readParsed(await parsedBody, path)
  if (!body) return NONE
  // RFC 8259 §8.1: UTF-8. An API that obeys another charset reads something else.
  const [, ...charsets] = (headers.get('Content-Type') ?? '').toLowerCase().split('charset')
  if (charsets.length > 1 || charsets.some((charset) => !/^="?utf-8"?\s*(?:;|$)/.test(charset))) return SPOILT
  const text = await readBody(request)
  // What is no UTF-8 has been replaced by U+FFFD.
  if (text === undefined || text.includes('\ufffd')) return SPOILT
  if (text === '') return NONE
  try {
    JSON.parse(text)
  } catch {
    return SPOILT
  }
  return findMember(text, path)
}

/** What the application sees is what counts, whatever was sent. */
function readParsed(parsedBody: unknown, path: readonly string[]): Reading {
  if (typeof parsedBody !== 'object' || parsedBody === null) return SPOILT
  let value: unknown = parsedBody
  for (const token of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, token)) return NONE
    value = (value as Record<string, unknown>)[token]
  }
  return readScalar(value)
}

/** An object or array that is being read. */
interface Container {
  readonly isArray: boolean
  /** Tokens of the pointer that lead to it; undefined if they do not. */
  readonly depth: number | undefined
  index: number
  hasFound: boolean
}

/** A string, with the colon that makes a name of it; a bracket or comma; or a word. */
const LEXEME = /"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\],]|[^\s"{}[\],]+/g

/** Not by what `JSON.parse` makes of it: of two members of one name, that keeps the last without a word. */
function findMember(json: string, path: readonly string[]): Reading {
  const containers: Container[] = []
  // Tokens of the pointer that lead to the next value, if they do.
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
      if (inner.hasFound || name !== token) return SPOILT
      inner.hasFound = true
      depth = (inner.depth ?? 0) + 1
    } else if (lexeme === '{' || lexeme === '[') {
      if (depth === path.length) return SPOILT
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

/** Whether a scalar is written in the one way that all read alike: 1, not 1.0 or 1e0. */
function isExact(lexeme: string): boolean {
  return /^(?:"|null$|(?:0|-?[1-9]\d{0,14})$)/.test(lexeme)
}

function readScalar(value: unknown): Reading {
  if (value === null) return NONE
  if (typeof value === 'number' && Number.isSafeInteger(value)) return { kind: 'value', value: String(value) }
  // A half of a pair of surrogates becomes something else on its way.
  return typeof value === 'string' && !/\p{Cs}/u.test(value) ? readText(value) : SPOILT
}

/** Go ignores the case of names, .NET and Jackson can; protocol buffers take `user_id` and `userId` for one. */
function fold(name: string): string {
  return foldCase(name).replace(/[^\p{L}\p{N}]/gu, '')
}
