import { Buffer } from 'node:buffer'
import { createDigest } from '../request/identity/digest.ts'

/** Two bytes of a hash: of as many values as a document may name, a few hundredths have the mark of another one. */
export const MARKS = 0x10000

/** A value is told from most others by these: the hash of a long one would take longer than its digest. */
const READ_CHARACTERS = 32

/**
 * Makes marks: small hashes under a key, so that a document gives nothing away by them. Who has the mark of nobody whom the
 * rules name need not be digested to know that it is none of them.
 * @param secret as digests have it
 * @param name what callers are known by, such as `header:x-tenant`
 * @returns of a value: an integer from 0 to 65535
 */
export function createMarker(secret: string | undefined, name: string): (value: string) => number {
  const key = Buffer.from(createDigest(secret)(['mark', name]), 'base64url')
  const [k0, k1] = [key.readInt32LE(0), key.readInt32LE(4)]
  return (value) => halfSipHash(k0, k1, value, Math.max(0, value.length - READ_CHARACTERS)) & (MARKS - 1)
}

/**
 * HalfSipHash-1-3 (https://github.com/veorq/SipHash), which Linux has for its tables, over the UTF-16 code units of a text
 * from one of them on. The packages that have SipHash take as long as a digest.
 */
export function halfSipHash(k0: number, k1: number, text: string, from = 0): number {
  let v0 = k0
  let v1 = k1
  let v2 = k0 ^ 0x6c796765
  let v3 = k1 ^ 0x74656462
  const pairs = (text.length - from) >> 1
  for (let step = 0; step <= pairs + 3; step++) {
    let word = 0
    const at = from + 2 * step
    if (step < pairs) word = text.charCodeAt(at) | (text.charCodeAt(at + 1) << 16)
    // The last one holds the length.
    if (step === pairs) word = ((2 * (text.length - from)) << 24) | (at < text.length ? text.charCodeAt(at) : 0)
    if (step === pairs + 1) v2 ^= 0xff
    v3 ^= word
    v0 = (v0 + v1) | 0
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
    v0 = (v0 << 16) | (v0 >>> 16)
    v2 = (v2 + v3) | 0
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
    v0 = (v0 + v3) | 0
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
    v2 = (v2 + v1) | 0
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
    v2 = (v2 << 16) | (v2 >>> 16)
    v0 ^= word
  }
  return v1 ^ v3
}
