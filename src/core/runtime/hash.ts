/** Hashes of texts, the one by which Redis knows a script and a quick one, and random numbers. */

/** Makes the name by which Redis knows a script. @returns lower-case hexadecimal digits */
export async function createSha1(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(text))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/**
 * FNV-1a that begins with 32 bits of the seed, mixed with the others as MurmurHash3 ends. It is no secret what a text
 * hashes to, unless the seed is one.
 * @param seed an integer from 0 to 2^53 - 1
 * @returns 32 bits
 */
export function hashText(text: string, seed = 0): number {
  let hash = 0x811c9dc5 ^ seed
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  }
  hash ^= seed / 2 ** 32
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** Draws 53 random bits: an integer that JavaScript and Lua both hold exactly. */
export function drawNumber(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2))
  return (high & 0x1f_ffff) * 2 ** 32 + low
}
