import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose'

/** A key of who signs tokens. */
export interface SigningKey {
  readonly alg: string
  readonly kid: string
  readonly privateKey: CryptoKey
  readonly publicKey: CryptoKey
  /** As a key set has it. */
  readonly jwk: JWK
}

export async function makeKey(kid: string, alg = 'ES256'): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  return { alg, kid, privateKey, publicKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } }
}

/**
 * A token, which expires in an hour unless the claims say when.
 * @param nowMs milliseconds since the Unix epoch
 */
export function signToken(
  claims: JWTPayload,
  key: SigningKey | { readonly secret: string; readonly alg?: string },
  nowMs = Date.now(),
): Promise<string> {
  const payload = { exp: Math.floor(nowMs / 1_000) + 3_600, ...claims }
  return 'secret' in key
    ? new SignJWT(payload)
        .setProtectedHeader({ alg: key.alg ?? 'HS256', typ: 'JWT' })
        .sign(new TextEncoder().encode(key.secret))
    : new SignJWT(payload).setProtectedHeader({ alg: key.alg, kid: key.kid, typ: 'JWT' }).sign(key.privateKey)
}

/** A part of a token in compact form. */
export function encodePart(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return Buffer.from(text).toString('base64url')
}
