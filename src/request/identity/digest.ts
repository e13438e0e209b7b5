import { createHash, createHmac, createSecretKey } from 'node:crypto'

/** Identities are cut to 128 bits: no two callers collide, and keys stay short. */
const DIGEST_BYTES = 16

/** Turns what identifies a caller into what may leave the isolate. */
export type Digest = (parts: readonly string[]) => string

/**
 * 128 bits of HMAC-SHA-256 in base64url, or of plain SHA-256 without a secret, so that no key, log or header holds a
 * raw token.
 */
export function createDigest(secret: string | undefined): Digest {
  const key = secret === undefined ? undefined : createSecretKey(secret, 'utf8')
  return function digest(parts) {
    const hash = key ? createHmac('sha256', key) : createHash('sha256')
    // As JSON, so that no value can be mistaken for two.
    return hash.update(JSON.stringify(parts)).digest().subarray(0, DIGEST_BYTES).toString('base64url')
  }
}
