import type { Reading } from '../../model/policy.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { NONE } from './reading.ts'

/** What a verified token says. */
export type Claims = Readonly<Record<string, unknown>>

/**
 * Reads a claim of a token, once it has verified the token: `none` without a token or without the claim, `spoilt` if the
 * token cannot be verified.
 * @param path names of members, from the outermost
 * @param authorization the field of that name
 * @param context the request's: however many claims are read for it, its token is verified once
 */
export type ClaimReader = (
  path: readonly string[],
  authorization: string | null,
  context: Pick<CallContext, 'waitUntil'>,
) => Reading | Promise<Reading>

/**
 * A string, number or boolean among claims, as JSON: the string "1", the number 1 and true are three identities. Anything
 * else counts as missing: objects, lists, the empty string, and integers so large that two of them may be read as one.
 */
export function claimIn(claims: Claims, path: readonly string[]): Reading {
  let value: unknown = claims
  for (const token of path) {
    // `length` is a member of a list that no token holds.
    const isMember = typeof value === 'object' && value !== null && (!Array.isArray(value) || /^\d+$/.test(token))
    if (!isMember || !Object.hasOwn(value as object, token)) return NONE
    value = (value as Record<string, unknown>)[token]
  }
  return isIdentity(value) ? { kind: 'value', value: JSON.stringify(value) } : NONE
}

function isIdentity(value: unknown): boolean {
  if (typeof value === 'number') {
    return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value))
  }
  return typeof value === 'boolean' || (typeof value === 'string' && value !== '')
}

/** How tokens are verified (RFC 7519). */
export interface JwtSettings {
  readonly keys: JwtKeys
  /** What `iss` must be; undefined: anything. */
  readonly issuer: string | undefined
  /** What `aud` must be or hold; undefined: anything. */
  readonly audience: string | undefined
}

export type JwtKeys =
  /** A key set (RFC 7517), published by who signs the tokens. */
  | { readonly kind: 'jwks'; readonly url: string }
  /** A secret shared with who signs them. */
  | { readonly kind: 'secret'; readonly secret: string }

/** As long as the output of SHA-256 (RFC 7518 §3.2). */
export const MIN_SECRET_CHARACTERS = 32
