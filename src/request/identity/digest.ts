import { createSha256 } from '../../runtime/hash.ts'

const BYTES = 16

export type Digest = (parts: readonly string[]) => string

/** Makes a function to 128 bits of HMAC-SHA-256 in base64url, or of plain SHA-256 without a secret. */
export function createDigest(secret: string | undefined): Digest {
  const sha256 = createSha256(secret)
  return function digest(parts) {
    // JSON keeps one value from looking like two.
    return toBase64Url(sha256(JSON.stringify(parts)).subarray(0, BYTES))
  }
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** RFC 4648, section 5, without padding: btoa() and the replacements after it would take as long as the hash. */
function toBase64Url(bytes: Uint8Array): string {
  let text = ''
  let pending = 0
  let bits = 0
  for (const byte of bytes) {
    pending = ((pending << 8) | byte) & 0xffff
    for (bits += 8; bits >= 6; bits -= 6) text += LETTERS[(pending >> (bits - 6)) & 63]
  }
  return bits > 0 ? text + LETTERS[(pending << (6 - bits)) & 63] : text
}
