/**
 * What `hash.ts` exports, wherever JavaScript runs. The built package imports it as `#hash`, which package.json resolves
 * to this file for all that is not Node: WebCrypto only has hashes that must be awaited.
 */
import { hmac } from '@noble/hashes/hmac.js'
import { sha1 as createSha1 } from '@noble/hashes/legacy.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import type * as native from './hash.ts'

export const createSha256: typeof native.createSha256 = (secret) => {
  // A copy of it begins with the key already hashed.
  const start = secret === undefined ? sha256.create() : hmac.create(sha256, utf8ToBytes(secret))
  return (text) => toBase64Url(start.clone().update(utf8ToBytes(text)).digest())
}

export const sha1: typeof native.sha1 = (text) => bytesToHex(createSha1(utf8ToBytes(text)))

function toBase64Url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}
