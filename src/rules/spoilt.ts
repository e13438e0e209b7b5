import { readAuthorization } from '../request/identity/authorization.ts'
import { readCookie } from '../request/identity/cookie.ts'
import { alike, readParameter } from '../request/identity/parameters.ts'
import { MAX_CHARACTERS, type Reading, readText } from '../request/identity/reading.ts'
import type { Source } from '../request/identity/source.ts'
import type { ReceivedRequest } from '../request/received-request.ts'

/** Of many, APIs take one of the first or the last. */
const MOST_OF_EACH = 4

/** Whether `valuesIn` finds anything in this source. */
export function isInFields({ kind }: Source): boolean {
  return kind === 'token' || kind === 'header' || kind === 'query' || kind === 'cookie'
}

/**
 * What some API may take a spoilt value for. A caller that is kept out must not get in by sending another value, or
 * anything else, beside the one that it is known by; whoever is let in is known by one value only.
 */
export function valuesIn(source: Source, { headers, url }: ReceivedRequest): readonly string[] {
  switch (source.kind) {
    case 'token':
      return valuesOf(piecesOf(headers.get('Authorization') ?? '', /[\s,]+/).flatMap(readCredential))
    case 'header':
      return valuesOf(piecesOf(headers.get(source.name) ?? '', /,/).map(readText))
    case 'query':
      return valuesOf(ends(parametersOf(url, source.name)).map((part) => readParameter(`k=${valueIn(part)}`, 'k')))
    case 'cookie':
      return valuesOf(
        piecesOf(headers.get('Cookie') ?? '', /[;,\s]+/, (part) => part.startsWith(`${source.name}=`)).map((part) =>
          readCookie(part, source.name),
        ),
      )
    default:
      return []
  }
}

/** The tokens that some API may read in an Authorization field, as far as they may be signed ones. */
export function tokensIn(field: string): readonly string[] {
  const tokens = piecesOf(field, /[\s,]+/, (piece) => piece.includes('.')).map((piece) =>
    // Padding, and what follows the signature, some libraries ignore.
    piece
      .split('.', 3)
      .map((part) => part.split('=', 1)[0])
      .join('.'),
  )
  return [...new Set(tokens)]
}

/** Whatever comes before it: another scheme, or none. */
function readCredential(piece: string): readonly Reading[] {
  // Some libraries ignore what follows the signature of a token.
  const three = piece.split('.', 3).join('.')
  const all = [readAuthorization(piece), readAuthorization(`Basic ${piece}`)]
  return three === piece ? all : [...all, readAuthorization(three)]
}

function parametersOf(url: string, name: string): readonly string[] {
  const parts = new URL(url).search.slice(1).split(/[&;]/)
  // More than are read: the name as it is spelled has to do.
  return alike(parts, name) ?? parts.filter((part) => part.startsWith(`${name}=`))
}

function valueIn(parameter: string): string {
  return parameter.slice(parameter.indexOf('=') + 1)
}

function piecesOf(field: string, separators: RegExp, isMeant = (piece: string) => piece !== ''): readonly string[] {
  return ends(field.split(separators).filter(isMeant))
}

function ends(all: readonly string[]): readonly string[] {
  return all.length <= 2 * MOST_OF_EACH ? all : [...all.slice(0, MOST_OF_EACH), ...all.slice(-MOST_OF_EACH)]
}

function valuesOf(readings: readonly Reading[]): readonly string[] {
  const values = readings.flatMap((reading) => (reading.kind === 'value' ? [reading.value] : []))
  return [...new Set(values)].filter(({ length }) => length <= MAX_CHARACTERS)
}
