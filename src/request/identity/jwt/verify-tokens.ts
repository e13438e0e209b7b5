/** Loaded only where policies ask for claims. */
import type { JWTPayload, JWTVerifyOptions } from 'jose'
import type { CallContext } from '../../../runtime/call-context.ts'
import { Lru } from '../../../runtime/lru.ts'
import type { JwtKeys, JwtSettings } from '../claims.ts'
import { type ClaimReader, type Claims, claimIn } from '../claims.ts'
import { AMBIGUOUS, MAX_CHARACTERS, NONE } from '../reading.ts'
import { type Jose, KeySet, type KeySetOptions, loadJose } from './key-set.ts'

export type VerifierParts = Omit<KeySetOptions, 'url'>

/** Each kind of keys verifies by its own algorithms only, so that no public key is ever taken for a secret. */
const ALGORITHMS: Readonly<Record<JwtKeys['kind'], readonly string[]>> = {
  jwks: [...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'], ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']],
  secret: ['HS256', 'HS384', 'HS512'],
}

/** Clocks of who signs and who verifies differ a little. */
const TOLERANCE_MS = 30_000
/** A token is verified again after this: the key that has signed it may have been withdrawn. */
const REMEMBERED_MS = 10 * 60_000
/** About 2,500 tokens of a thousand characters. */
const MAX_BYTES = 8 * 1024 * 1024
/** What an entry takes besides its token; its claims take about twice as much as the token. */
const ENTRY_BYTES = 300

interface Verified {
  readonly claims: Claims
  readonly untilMs: number
}

/** Makes a reader of claims as `createTokenVerifier` does, by the package `jose`. @throws {Error} if it is not installed */
export async function loadTokenVerifier(settings: JwtSettings, parts: VerifierParts): Promise<ClaimReader> {
  return createTokenVerifier(await loadJose(), settings, parts)
}

/**
 * Makes a reader of claims: the signature, `exp` and `nbf` of a token are checked, and `iss` and `aud` as the settings
 * say. What was verified is remembered until it expires, at most 10 minutes; of a token that is refused, nothing is.
 */
export function createTokenVerifier(
  jose: Jose,
  { keys, issuer, audience }: JwtSettings,
  parts: VerifierParts,
): ClaimReader {
  const { now } = parts
  const algorithms = ALGORITHMS[keys.kind]
  const { decodeProtectedHeader, jwtVerify } = jose
  const keyOf = createKeyFinder(jose, keys, parts)
  const options: JWTVerifyOptions = {
    algorithms: [...algorithms],
    clockTolerance: TOLERANCE_MS / 1_000,
    ...(issuer !== undefined && { issuer }),
    ...(audience !== undefined && { audience }),
  }
  const remembered = new Lru<Verified>(MAX_BYTES, (token) => ENTRY_BYTES + 3 * token.length)
  // One request's promises concern nobody else.
  const asked = new WeakMap<object, Promise<Claims | undefined>>()

  return function readClaim(path, authorization, context) {
    const token = tokenIn(authorization)
    if (typeof token !== 'string') return token
    const known = remembered.get(token)
    if (known && known.untilMs > now()) return claimIn(known.claims, path)
    const verified = asked.get(context) ?? verify(token, context)
    asked.set(context, verified)
    return verified.then((claims) => (claims ? claimIn(claims, path) : AMBIGUOUS))
  }

  async function verify(token: string, context: Pick<CallContext, 'waitUntil'>): Promise<Claims | undefined> {
    try {
      // Before keys are asked for.
      if (!algorithms.includes(`${decodeProtectedHeader(token).alg}`)) return undefined
      const currentDate = new Date(now())
      const { payload } = await jwtVerify(token, (header) => keyOf(header, context), { ...options, currentDate })
      remembered.set(token, { claims: payload, untilMs: rememberedUntilMs(payload, now()) })
      return payload
    } catch {
      // Whatever is wrong with it: a token comes from strangers.
      return undefined
    }
  }
}

function createKeyFinder(jose: Jose, keys: JwtKeys, parts: VerifierParts): KeySet['find'] | (() => Uint8Array) {
  if (keys.kind === 'jwks') {
    const set = new KeySet(jose, { ...parts, url: keys.url })
    return (header, context) => set.find(header, context)
  }
  const secret = new TextEncoder().encode(keys.secret)
  return () => secret
}

function rememberedUntilMs({ exp = Number.POSITIVE_INFINITY }: JWTPayload, nowMs: number): number {
  return Math.min(exp * 1_000 + TOLERANCE_MS, nowMs + REMEMBERED_MS)
}

/**
 * The token of an Authorization field, whatever its scheme, as APIs read it that look only at the second word.
 * @returns spoilt for anything else that stands there, also for two of them: the runtime joins fields with a comma
 */
function tokenIn(authorization: string | null): string | typeof NONE | typeof AMBIGUOUS {
  if (authorization === null) return NONE
  if (authorization.length > MAX_CHARACTERS) return AMBIGUOUS
  const words = authorization.trim().split(/\s+/, 3)
  const token = words.at(-1) ?? ''
  if (words.length === 1 && /^(?:bearer)?$/i.test(token)) return NONE
  return words.length <= 2 && /^[\w-]+\.[\w-]+\.[\w-]+$/.test(token) ? token : AMBIGUOUS
}
