import { createHash, createHmac, createSecretKey } from 'node:crypto'

/** Identities are cut to 128 bits: no two callers collide, and keys stay short. So many letters are written in full … */
const WHOLE_LETTERS = 21

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
    const letters = hash.update(JSON.stringify(parts)).digest('base64url')
    // Cutting its bytes would make two more buffers.
    return letters.slice(0, WHOLE_LETTERS) + withTwoBits(letters.charAt(WHOLE_LETTERS))
  }
}

/** … and of the next, only the first two of six bits. */
function withTwoBits(letter: string): string {
  // The 64 letters are A to Z, a to z, 0 to 9, "-" and "_".
  if (letter < 'A' || letter === '_' || letter > 'v') return 'w'
  if (letter > 'f') return 'g'
  return letter > 'P' ? 'Q' : 'A'
}
