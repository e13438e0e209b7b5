import { createHash, createHmac } from 'node:crypto'
import { Remembered } from '../remembered.ts'

/** Identities are cut to 128 bits: no two callers meet, and keys stay short. */
const DIGEST_BYTES = 16

/** Turns what identifies a caller into what may leave the isolate. */
export type Digest = (parts: readonly string[]) => string

/**
 * 128 bits of HMAC-SHA-256 in base64url, or of plain SHA-256 without a secret, so that no key, log or header holds a
 * raw token.
 */
export function createDigest(secret: string | undefined): Digest {
  const remembered = new Remembered<string>()
  return function digest(parts) {
    // As JSON, so that no value can be mistaken for two.
    const text = JSON.stringify(parts)
    const known = remembered.get(text)
    if (known !== undefined) return known
    const hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret)
    const result = hash.update(text).digest().subarray(0, DIGEST_BYTES).toString('base64url')
    remembered.set(text, result)
    return result
  }
}
