import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createDigest } from '../../src/core/runtime/digest.ts'

const encoder = new TextEncoder()

/** The first 128 bits in base64url, by other means than the source uses. */
function encode(hash: ArrayBuffer): string {
  const binary = String.fromCharCode(...new Uint8Array(hash).slice(0, 16))
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

async function hmac(secret: string, text: string): Promise<string> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign'])
  return encode(await crypto.subtle.sign('HMAC', key, encoder.encode(text)))
}

const parts = fc.array(fc.string({ unit: 'binary' }), { minLength: 1, maxLength: 4 })

test('createDigest() makes 128 bits of HMAC-SHA-256 in base64url', async () => {
  const secret = fc.string({ minLength: 16, unit: 'grapheme' })
  await fc.assert(
    fc.asyncProperty(secret, parts, async (secret, parts) => {
      expect(createDigest(secret)(parts)).toBe(await hmac(secret, JSON.stringify(parts)))
    }),
  )
})

test('createDigest() makes 128 bits of SHA-256 without a secret', async () => {
  await fc.assert(
    fc.asyncProperty(parts, async (parts) => {
      const hash = await crypto.subtle.digest('SHA-256', encoder.encode(JSON.stringify(parts)))
      expect(createDigest(undefined)(parts)).toBe(encode(hash))
    }),
  )
})
