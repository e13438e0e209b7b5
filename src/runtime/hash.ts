import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { utf8ToBytes } from '@noble/hashes/utils.js'

/**
 * Makes a function to the HMAC-SHA-256 of a text, or to its plain SHA-256 without a secret, in base64url. WebCrypto only
 * has hashes that must be awaited, and to load `node:crypto` takes a fifth of a Worker's cold start.
 */
export function createSha256(secret: string | undefined): (text: string) => string {
  // A copy of it begins with the key already hashed.
  const start = secret === undefined ? sha256.create() : hmac.create(sha256, utf8ToBytes(secret))
  return (text) => toBase64Url(start.clone().update(utf8ToBytes(text)).digest())
}

/** @returns lower-case hexadecimal digits, by which Redis knows a script */
export async function createSha1(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(text))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

function toBase64Url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}
