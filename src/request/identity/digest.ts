import { createSha256 } from '../../runtime/hash.ts'

/** The 22nd character of 128 bits in base64url has only two bits. */
const WHOLE_CHARACTERS = 21

export type Digest = (parts: readonly string[]) => string

/** Makes a function to 128 bits of HMAC-SHA-256 in base64url, or of plain SHA-256 without a secret. */
export function createDigest(secret: string | undefined): Digest {
  const sha256 = createSha256(secret)
  return function digest(parts) {
    // JSON keeps one value from looking like two.
    const text = sha256(JSON.stringify(parts))
    // Slicing the bytes would allocate two more buffers.
    return text.slice(0, WHOLE_CHARACTERS) + keepTwoBits(text.charAt(WHOLE_CHARACTERS))
  }
}

/** Clears the last four of six bits. */
function keepTwoBits(letter: string): string {
  // The 64 characters are A to Z, a to z, 0 to 9, "-" and "_".
  if (letter < 'A' || letter === '_' || letter > 'v') return 'w'
  if (letter > 'f') return 'g'
  return letter > 'P' ? 'Q' : 'A'
}
