/** Makes digests of identities, so that keys and logs hold none. */
import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import type { Hash } from '@noble/hashes/utils.js'

const BYTES = 16
const UTF8 = new TextEncoder()

export type Digest = (parts: readonly string[]) => string

/**
 * Makes a function to 128 bits of HMAC-SHA-256 in base64url, or of plain SHA-256 without a secret. WebCrypto only has
 * hashes that must be awaited, and to load `node:crypto` takes a fifth of a Worker's cold start.
 */
export function createDigest(secret: string | undefined): Digest {
  return secret === undefined ? continueFrom(sha256.create()) : continueFrom(hmac.create(sha256, UTF8.encode(secret)))
}

/** @param start what has been hashed of each identity already: the key */
function continueFrom<T extends Hash<T>>(start: T): Digest {
  // A copy of its own for each identity would take half as long again.
  const copy = start.clone()
  return function digest(parts) {
    // JSON keeps one value from looking like two.
    const hash = start
      ._cloneInto(copy)
      .update(UTF8.encode(JSON.stringify(parts)))
      .digest()
    return toBase64Url(hash.subarray(0, BYTES))
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
