/** Reads claims of verified tokens. */
import type { Reading } from '../../../core/model/identity-source.ts'
import type { CallContext } from '../../../core/runtime/call-context.ts'
import { findMember, NONE } from './reading.ts'

/** A signed token in compact form (RFC 7515 §3.1). */
export const SIGNED_TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/

/**
 * Finds the signed token of an Authorization header, whatever its scheme: some APIs look only at the second word.
 * @returns undefined for anything else, also for a token in place of the scheme, which other APIs read
 */
export function findSignedToken(authorization: string): string | undefined {
  const words = authorization.trim().split(/\s+/, 3)
  const [first = '', second] = words
  const isOne = words.length < 3 && !(second && SIGNED_TOKEN.test(first))
  const token = second ?? first
  return isOne && SIGNED_TOKEN.test(token) ? token : undefined
}

export type Claims = Readonly<Record<string, unknown>>

/** Gives none without a token or claim, ambiguous for an invalid token. It verifies a token once for each context. */
export type ClaimReader = (
  path: readonly string[],
  authorization: string | null,
  context: Pick<CallContext, 'waitUntil'>,
) => Reading | Promise<Reading>

/**
 * Reads a string, number or boolean as JSON: the string "1", the number 1 and true are three identities. Anything else
 * counts as missing: objects, lists, the empty string, and integers so large that two of them may be read as one.
 */
export function findClaim(claims: Claims, path: readonly string[]): Reading {
  const value = findMember(claims, path)
  return isIdentity(value) ? { kind: 'value', value: JSON.stringify(value) } : NONE
}

function isIdentity(value: unknown): boolean {
  if (typeof value === 'number') {
    return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value))
  }
  return typeof value === 'boolean' || (typeof value === 'string' && value !== '')
}

/** Requirements for tokens (RFC 7519): their keys, `iss` and `aud`. */
export interface JwtSettings {
  readonly keys: JwtKeys
  readonly issuer: string | undefined
  readonly audience: string | undefined
}

export type JwtKeys =
  /** A key set (RFC 7517), published by the issuer. */
  | { readonly kind: 'jwks'; readonly url: string }
  /** A secret shared with the issuer. */
  | { readonly kind: 'secret'; readonly secret: string }

/** RFC 7518 §3.2 requires the length of the output of SHA-256. */
export const MIN_SECRET_CHARACTERS = 32
