/** Verifies signed tokens. Loaded only if policies or rules read claims. */
import type { JWTVerifyOptions } from 'jose'
import type { CallContext } from '../../../../core/runtime/call-context.ts'
import { Lru } from '../../../../core/runtime/lru.ts'
import { type ClaimReader, type Claims, findClaim, findSignedToken, type JwtKeys, type JwtSettings } from '../claims.ts'
import { AMBIGUOUS, MAX_CHARACTERS, NONE } from '../reading.ts'
import { createKeySet, type KeySetOptions, loadJose } from './key-set.ts'

export type VerifierParts = Omit<KeySetOptions, 'url'>

/** Each kind of keys verifies by its own algorithms only, so that no public key is ever taken for a secret. */
const ALGORITHMS: Readonly<Record<JwtKeys['kind'], readonly string[]>> = {
  jwks: [...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'], ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']],
  secret: ['HS256', 'HS384', 'HS512'],
}

/** A stranger's token must not cost a check by each key of a large set. Issuers with more keys name them in their tokens. */
const MAX_KEYS_TRIED = 8

const TOLERANCE_MS = 30_000
/** A token is then verified again: its key may have been withdrawn. */
const CACHED_MS = 10 * 60_000
/** Fits about 2,500 tokens of a thousand characters. */
const MAX_BYTES = 8 * 1024 * 1024
/** Overhead of a cache entry; its claims take about twice as much as its token. */
const ENTRY_BYTES = 300

interface Verified {
  readonly claims: Claims
  readonly untilMs: number
}

/**
 * Makes a reader of claims that checks the signature, `exp` and `nbf` of a token, and `iss` and `aud` as the settings
 * require. A valid token is cached until it expires, at most 10 minutes; an invalid one is not cached.
 */
export async function loadTokenVerifier(
  { keys, issuer, audience }: JwtSettings,
  parts: VerifierParts,
): Promise<ClaimReader> {
  const jose = await loadJose()
  const { now } = parts
  const algorithms = ALGORITHMS[keys.kind]
  const { decodeProtectedHeader, jwtVerify } = jose
  const findKey =
    keys.kind === 'jwks' ? createKeySet(jose, { ...parts, url: keys.url }) : createSecretFinder(keys.secret)
  const options: JWTVerifyOptions = {
    algorithms: [...algorithms],
    clockTolerance: TOLERANCE_MS / 1_000,
    ...(issuer !== undefined && { issuer }),
    ...(audience !== undefined && { audience }),
  }
  const cache = new Lru<Verified>(MAX_BYTES, (token) => ENTRY_BYTES + 3 * token.length)
  // Requests do not share promises.
  const pending = new WeakMap<object, Promise<Claims | undefined>>()

  return function readClaim(path, authorization, context) {
    const token = readToken(authorization)
    if (typeof token !== 'string') return token
    const known = cache.get(token)
    if (known && known.untilMs > now()) return findClaim(known.claims, path)
    const verified = pending.get(context) ?? verify(token, context)
    pending.set(context, verified)
    return verified.then((claims) => (claims ? findClaim(claims, path) : AMBIGUOUS))
  }

  /**
   * Tries the first keys of the token's algorithm: its header need not name one (RFC 7515 §4.1.4).
   * @throws the error if none fits
   */
  async function verifyByAny(token: string, error: unknown, timed: JWTVerifyOptions) {
    if (!(error instanceof jose.errors.JWKSMultipleMatchingKeys)) throw error
    let tried = 0
    for await (const key of error) {
      if (++tried > MAX_KEYS_TRIED) break
      const verified = await jwtVerify(token, key, timed).catch(() => undefined)
      if (verified) return verified
    }
    throw error
  }

  async function verify(token: string, context: Pick<CallContext, 'waitUntil'>): Promise<Claims | undefined> {
    try {
      // No keys are fetched for other algorithms.
      if (!algorithms.includes(`${decodeProtectedHeader(token).alg}`)) return undefined
      const timed = { ...options, currentDate: new Date(now()) }
      const verified = jwtVerify(token, (header) => findKey(header, context), timed)
      const { payload } = await verified.catch((error) => verifyByAny(token, error, timed))
      const { exp = Number.POSITIVE_INFINITY } = payload
      cache.set(token, { claims: payload, untilMs: Math.min(exp * 1_000 + TOLERANCE_MS, now() + CACHED_MS) })
      return payload
    } catch {
      // Tokens come from strangers: every error means an invalid one.
      return undefined
    }
  }
}

function createSecretFinder(text: string): () => Uint8Array {
  const secret = new TextEncoder().encode(text)
  return () => secret
}

/** @returns ambiguous for anything but one token, also for two headers, which the runtime joins with a comma */
function readToken(authorization: string | null): string | typeof NONE | typeof AMBIGUOUS {
  if (authorization === null) return NONE
  if (authorization.length > MAX_CHARACTERS) return AMBIGUOUS
  if (/^(?:bearer)?$/i.test(authorization.trim())) return NONE
  return findSignedToken(authorization) ?? AMBIGUOUS
}
