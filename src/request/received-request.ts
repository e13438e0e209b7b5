/** What is read of a request to decide it. A `Request` as Cloudflare hands it over is one. */
export interface ReceivedRequest {
  readonly method: string
  readonly url: string
  readonly headers: Pick<Headers, 'get' | 'has'>
  readonly body: unknown
  /** A copy, whose body can be read without taking it from the other readers. */
  clone(): { readonly body: ReadableStream<Uint8Array> | null }
  /** The caller's address, as far as it can be believed; null if unknown. Default: what `CF-Connecting-IP` says. */
  readonly address?: string | null
  /**
   * The fields that a parser of the application has already read from the body, or a promise of them. Null if the body
   * was read, but its content is unknown. If left out, the body can still be read.
   */
  readonly parsedBody?: unknown
  /** What Cloudflare knows of where it comes from; left out elsewhere. */
  readonly cf?: unknown
  /** What the application's own functions are asked about. */
  readonly context?: unknown
}

/** A larger body is not read: it would have to be held in memory before it can be proxied. */
export const MAX_BODY_BYTES = 8 * 1024

/** Fields in which some frameworks let a client name another method than the request's own. */
const FIELDS = ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override']

/**
 * `_method` as a parameter, and all that follows it there: as PHP reads it, which takes other characters for the `_`, drops
 * spaces before it and ends it at a NUL, and wherever an escaped character may begin the query or a parameter.
 */
const PARAMETER = new RegExp(
  `(?:[?&;]|${matchEscape('3F')}|${matchEscape('26')}|${matchEscape('3B')})(?:\\+|${matchEscape('20')})*` +
    `(?:[_.[+]|${['5F', '2E', '5B', '20'].map(matchEscape).join('|')})` +
    [...'method']
      .map((letter) => `(?:${letter}|${matchEscape(toHex(letter))}|${matchEscape(toHex(letter.toUpperCase()))})`)
      .join('') +
    '([^&;]*)',
  'gi',
)

/** More than any method needs: longer values, or more of them, are not read. */
const MOST_CHARACTERS = 100
const MOST_PARAMETERS = 10

/** The methods that a request may mean to the API behind. */
export interface RequestMethods {
  /** Its own first. */
  readonly meant: readonly string[]
  /** Whether it names no other method than its own: nothing is exempt otherwise. */
  readonly isCertain: boolean
}

/**
 * Reads which methods a request names besides its own, in such a field or as `_method` in the query. A policy must hold
 * for all of them.
 * @param known those that patterns name: what else a request may mean makes no difference
 */
export function readMethods(
  { method, headers, url }: Pick<ReceivedRequest, 'method' | 'headers' | 'url'>,
  known: readonly string[],
): RequestMethods {
  if (known.length === 0) return { meant: [method], isCertain: true }
  const values: string[] = []
  for (const name of FIELDS) {
    const value = headers.get(name)
    if (value !== null) values.push(value)
  }
  for (const [, value = ''] of url.matchAll(PARAMETER)) {
    if (values.push(decoded(value)) > MOST_PARAMETERS) break
  }
  if (values.length === 0) return { meant: [method], isCertain: true }

  const isReadable = values.length <= MOST_PARAMETERS && values.every((value) => value.length <= MOST_CHARACTERS)
  const named = isReadable ? values.flatMap(wordsIn) : known
  const meant = new Set([method, ...known.filter((each) => named.includes(each))])
  return { meant: [...meant], isCertain: isReadable && named.every((each) => each === method) }
}

/** In upper case. Read before and after that, because it makes two letters of "ß", which then belong to a word. */
function wordsIn(value: string): string[] {
  const words = `${value} ${value.toUpperCase()}`.match(/[A-Za-z]+/g) ?? []
  return words.map((word) => word.toUpperCase())
}

/** An escape of a character, itself escaped or not. */
function matchEscape(hex: string): string {
  return `%(?:25)*${hex}`
}

function toHex(letter: string): string {
  return letter.charCodeAt(0).toString(16)
}

/** Only a short one: others are not read. */
function decoded(value: string): string {
  return value.length > 3 * MOST_CHARACTERS ? value : unescape(unescape(value)).replaceAll('+', ' ')
}
