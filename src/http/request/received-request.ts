/** A request as it is decided, wherever it comes from. */
import type { CallContext } from '../../core/runtime/call-context.ts'
import type { RequestPath } from './target.ts'

/** The parts of a request that decide it; Cloudflare's `Request` is one. */
export interface ReceivedRequest {
  readonly method: string
  readonly url: string
  readonly headers: Pick<Headers, 'get' | 'has'>
  readonly body: unknown
  /** Copies the request, so that its body can be read, up to so many bytes, and still be forwarded. */
  clone(maxBytes?: number): { readonly body: ReadableStream<Uint8Array> | null }
  /** The trusted address of the caller; null if unknown. Default: `CF-Connecting-IP`. */
  readonly address?: string | null
  /** Fields that the application has parsed, or a promise of them; null: unknown ones; undefined: the body is unread. */
  readonly parsedBody?: unknown
  readonly cf?: unknown
  /** The argument of the application's own functions. */
  readonly context?: unknown
}

/** @returns the bytes of the body, as the request announces them; undefined if it does not, or not plainly */
export function readAnnouncedBytes(headers: ReceivedRequest['headers']): number | undefined {
  const length = headers.has('Transfer-Encoding') ? null : headers.get('Content-Length')
  return length && /^\d{1,15}$/.test(length) ? Number(length) : undefined
}

/** A request on its way to a response. */
export interface Exchange<Received = ReceivedRequest> {
  readonly request: Received
  readonly path: RequestPath
  readonly context: CallContext
}

/** A larger body is not read: it would be buffered in memory before it is forwarded. */
export const MAX_BODY_BYTES = 8 * 1024
/** The same for JSON: prompts of language models are long. */
export const MAX_JSON_BYTES = 256 * 1024

const HEADERS = ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override']

/** Begins an escape of a character, itself escaped or not. */
const ESCAPED = '%(?:25)*'

/**
 * `_method` as a parameter, and all that follows it there: as PHP reads it, which takes other characters for the `_`, drops
 * spaces before it and ends it at a NUL, and wherever an escaped character may begin the query or a parameter.
 */
const PARAMETER = new RegExp(
  `(?:[?&;]|${ESCAPED}(?:3F|26|3B))(?:\\+|${ESCAPED}20)*(?:[_.[+]|${ESCAPED}(?:5F|2E|5B|20))` +
    `(?:m|${ESCAPED}[46]D)(?:e|${ESCAPED}[46]5)(?:t|${ESCAPED}[57]4)(?:h|${ESCAPED}[46]8)(?:o|${ESCAPED}[46]F)` +
    `(?:d|${ESCAPED}[46]4)([^&;]*)`,
  'gi',
)

/** No method needs more: longer values, or more of them, are not read. */
const MAX_CHARACTERS = 100
const MAX_PARAMETERS = 10

export interface RequestMethods {
  /** The request's own comes first. */
  readonly meant: readonly string[]
  /** True if it names no other method than its own: nothing is exempt otherwise. */
  readonly isCertain: boolean
}

/** Reads the methods that a request names, in a header or as `_method` in the query. @param known those of patterns */
export function readMethods(
  { method, headers, url }: Pick<ReceivedRequest, 'method' | 'headers' | 'url'>,
  known: readonly string[],
): RequestMethods {
  if (known.length === 0) return { meant: [method], isCertain: true }
  const values: string[] = []
  for (const name of HEADERS) {
    const value = headers.get(name)
    if (value !== null) values.push(value)
  }
  for (const [, value = ''] of url.matchAll(PARAMETER)) {
    if (values.push(decodeTwice(value)) > MAX_PARAMETERS) break
  }
  if (values.length === 0) return { meant: [method], isCertain: true }

  const isReadable = values.length <= MAX_PARAMETERS && values.every((value) => value.length <= MAX_CHARACTERS)
  const named = isReadable ? values.flatMap(findWords) : known
  const meant = new Set([method, ...known.filter((each) => named.includes(each))])
  return { meant: [...meant], isCertain: isReadable && named.every((each) => each === method) }
}

/** Words are found before and after the change to upper case, which makes two letters of "ß". */
function findWords(value: string): string[] {
  const words = `${value} ${value.toUpperCase()}`.match(/[A-Za-z]+/g) ?? []
  return words.map((word) => word.toUpperCase())
}

/** Long values are not read, and stay as they are. */
function decodeTwice(value: string): string {
  return value.length > 3 * MAX_CHARACTERS ? value : unescape(unescape(value)).replaceAll('+', ' ')
}
