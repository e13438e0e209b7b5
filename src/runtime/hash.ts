import { createHash, createHmac, createSecretKey } from 'node:crypto'

/** Hashes a text in UTF-8. */
export type Hash = (text: string) => string

/** Makes a function to the HMAC-SHA-256 of a text in base64url, or to its plain SHA-256 without a secret. */
export function createSha256(secret: string | undefined): Hash {
  const key = secret === undefined ? undefined : createSecretKey(secret, 'utf8')
  return (text) => (key ? createHmac('sha256', key) : createHash('sha256')).update(text).digest('base64url')
}

/** @returns lower-case hexadecimal digits, by which Redis knows a script */
export const sha1: Hash = (text) => createHash('sha1').update(text).digest('hex')
