/** A token that does not name its key costs few checks, however many keys an issuer publishes. */
import fc from 'fast-check'
import { type JWK, SignJWT } from 'jose'
import { expect, test, vi } from 'vitest'
import { loadTokenVerifier } from '../../src/http/request/identity/jwt/verify-tokens.ts'
import { callContext } from '../support/call-context.ts'
import { expectProperty } from '../support/property.ts'
import { makeKey, type SigningKey } from '../support/tokens.ts'

const MAX_KEYS_TRIED = 8

/** How a set names its keys: each by itself, not at all, or all by one name. */
const NAMINGS: readonly ((jwk: JWK) => JWK)[] = [
  (jwk) => jwk,
  ({ kid, ...jwk }) => jwk,
  ({ kid, alg, use, ...jwk }) => jwk,
  (jwk) => ({ ...jwk, kid: 'one' }),
]

const sign = (key: SigningKey) =>
  new SignJWT({ sub: 'alice', exp: Math.floor(Date.now() / 1_000) + 600 })
    .setProtectedHeader({ alg: key.alg })
    .sign(key.privateKey)

test('loadTokenVerifier() tries a bounded number of keys for a token that names none', async () => {
  const known = await Promise.all(Array.from({ length: 60 }, (_, index) => makeKey(`key ${index}`)))
  const foreign = await Promise.all([makeKey('rsa', 'RS256'), makeKey('ed', 'EdDSA')])
  const stranger = await makeKey('stranger')

  await expectProperty(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 60 }),
      fc.nat(),
      fc.constantFrom(...NAMINGS),
      fc.boolean(),
      async (count, chosen, name, hasForeign) => {
        const signer = chosen % count
        const set = [...(hasForeign ? foreign : []), ...known.slice(0, count)].map(({ jwk }) => name(jwk))
        const read = await loadTokenVerifier(
          { keys: { kind: 'jwks', url: 'https://id.example.com/keys' }, issuer: undefined, audience: undefined },
          { now: Date.now, log() {}, fetch: async () => Response.json({ keys: set }) },
        )
        const verify = vi.spyOn(crypto.subtle, 'verify')
        try {
          const good = await read(['sub'], `Bearer ${await sign(known[signer] as SigningKey)}`, callContext())
          expect(good.kind).toBe(signer < MAX_KEYS_TRIED ? 'value' : 'ambiguous')
          verify.mockClear()
          expect(await read(['sub'], `Bearer ${await sign(stranger)}`, callContext())).toEqual({ kind: 'ambiguous' })
          expect(verify.mock.calls.length).toBe(Math.min(count, MAX_KEYS_TRIED))
        } finally {
          verify.mockRestore()
        }
      },
    ),
    400,
  )
})
