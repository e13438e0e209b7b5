/** Reads the credential of a request in one spelling. */
import type { Reading } from '../../../core/model/identity-source.ts'
import { AMBIGUOUS, MAX_CHARACTERS, NONE } from './reading.ts'

/**
 * Reads the credential of an Authorization header, whatever its scheme: many APIs look only at the second word. Spellings
 * that decode to the same credential, even with a lenient decoder, are one credential or none.
 * @returns ambiguous for anything but one visible word, alone or after a scheme: of several words some APIs take the
 * first, and a comma may separate two headers, which the runtime joins with it
 */
export function readAuthorization(field: string | null): Reading {
  if (field !== null && field.length > MAX_CHARACTERS) return AMBIGUOUS
  const words = (field ?? '').trim().split(/\s+/, 3)
  const [scheme = '', credential = scheme] = words
  if (scheme === '') return NONE
  const isBasic = /^basic$/i.test(scheme)
  if (words.length === 1 && (isBasic || /^bearer$/i.test(scheme))) return NONE
  const [, quote, bare = ''] = PARAMETER.exec(credential) ?? []
  const text = words.join(' ')
  if (words.length > 2 || text.includes('Bearer', 1) || BEARER_GLUED.test(text)) return AMBIGUOUS
  if (words.length > 1 && !/^[\w.:+-]+$/.test(scheme)) return AMBIGUOUS
  // In quotes, a backslash escapes the next character to some. No decoder of Basic takes anything off.
  if (quote && (isBasic || bare.includes('\\'))) return AMBIGUOUS
  const value = bare && canonicalizeCredential(isBasic ? credential : bare, isBasic)
  return value ? { kind: 'value', value } : AMBIGUOUS
}

/**
 * Matches a credential in visible ASCII, bare or in Rails's spelling, `token="secret"`. Rails ends it at ";" and ",", and
 * needs neither the name nor the quotes; at other characters, some APIs split or trim.
 */
const PARAMETER = /^(?:token=)?("?)(?!token=|=)([!#-+\--:<-~]+)\1$/i

/** Many programs cut "Bearer " out, or split at it, wherever it stands, some of them without the space or in any case. */
const BEARER_GLUED = /^bearer\S+$|^\S+bearer /i

/** @returns undefined for what decoders read in different ways */
export function canonicalizeCredential(word: string, isBasic: boolean): string | undefined {
  // `{"` in base64url, or `{` and white space; or, after a dot, what zlib has compressed (itsdangerous).
  if (!isBasic && /^(?:e[wy]|\.e)[^.]*\.[^.]*\./.test(word)) return canonicalizeToken(word.replace(/^\./, ''))
  const unpadded = withoutPadding(word)
  if (isTooDivided(unpadded)) return undefined
  if (isBasic || isUserAndPassword(unpadded)) return canonicalizeBase64(unpadded)
  const mapped = fromUrlAlphabet(unpadded)
  if (mapped !== unpadded && isUserAndPassword(mapped)) return canonicalizeBase64(mapped)
  return word
}

/** No list of names and values with "=" between that is in use is longer. */
const MAX_DIVIDED_CHARACTERS = 2_000
const MAX_PARTS = 10

/** Tests that a decoder may stop at more places than are checked. */
function isTooDivided(unpadded: string): boolean {
  const parts = unpadded.split('=', MAX_PARTS + 1).length
  return parts > MAX_PARTS || (parts > 1 && unpadded.length > MAX_DIVIDED_CHARACTERS)
}

/** Tests for a text with a colon, as in Basic (RFC 7617). At padding, some decoders stop and some continue. */
function isUserAndPassword(unpadded: string): boolean {
  const parts = unpadded.split('=')
  return parts.some((_, index) => hasColon(parts.slice(0, index + 1).join('')))
}

/** Matches the byte of a colon in base64, as the first, the second or the third of three. */
const COLON = /^(?:.{4})*?(?:O[g-v]|.[DTjz][o-r]|..[AEIMQUYcgkosw048]6)/

/** Lenient decoders skip what is not in the alphabet, and bits that make no byte. */
function hasColon(base64: string): boolean {
  // These often come in bulk, and a pattern takes four times as long for them.
  const few = base64.replaceAll('-', '').replaceAll('_', '').replaceAll('.', '')
  const letters = few.replace(/[^A-Za-z\d+/]+/g, '')
  // Few tokens have one, and to decode them takes longer.
  return COLON.test(letters) && !/[\p{Cc}\ufffd]/u.test(decodeText(letters))
}

/** @param letters of the alphabet of base64 alone: one that is left after groups of four makes no byte */
function decodeText(letters: string): string {
  const binary = atob(letters.length % 4 === 1 ? letters.slice(0, -1) : letters)
  return new TextDecoder().decode(Uint8Array.from(binary, (letter) => letter.charCodeAt(0)))
}

/**
 * Normalizes a JWS or JWE in compact form (RFC 7515, RFC 7516), without padding and spare bits. Only the beginning of a
 * signature counts: it cannot be guessed, and the rest of an ECDSA signature is a number whose sign can be changed.
 */
function canonicalizeToken(word: string): string | undefined {
  const parts = word.split('.', 6).map((part) => {
    const unpadded = withoutPadding(part)
    return /^[\w-]*$/.test(unpadded) ? canonicalizeBase64(fromUrlAlphabet(unpadded)) : undefined
  })
  if (parts.includes(undefined)) return undefined
  const [header = '', payload, signature = '', ...others] = parts
  if (others.length === 0) return [header, payload, signature.slice(0, SIGNATURE_CHARACTERS)].join('.')
  // Some libraries ignore what follows a signature.
  return others.length === 2 && atob(header).includes('"enc"') ? parts.join('.') : undefined
}

const SIGNATURE_CHARACTERS = 40 // 240 bits

/** @returns undefined for what a strict decoder refuses, except spare bits, which are cleared */
function canonicalizeBase64(unpadded: string): string | undefined {
  const isBase64 = /^[A-Za-z\d+/]*$/.test(unpadded) && unpadded.length % 4 !== 1
  return isBase64 ? withoutPadding(btoa(atob(unpadded))) : undefined
}

/** A pattern that ends with `=+$` would start again at each "=". */
function withoutPadding(text: string): string {
  let end = text.length
  while (text[end - 1] === '=') end -= 1
  return text.slice(0, end)
}

function fromUrlAlphabet(text: string): string {
  return text.replaceAll('-', '+').replaceAll('_', '/')
}
