import { base64url, exportSPKI, type JWTPayload, SignJWT } from 'jose'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import type { ClaimReader, JwtSettings } from '../../src/http/request/identity/claims.ts'
import { loadTokenVerifier } from '../../src/http/request/identity/jwt/verify-tokens.ts'
import { callContext } from '../support/call-context.ts'
import { encodePart, makeKey, type SigningKey, signToken } from '../support/tokens.ts'

const NOW = 1_700_000_000_000
const SECRET = 'a secret of thirty-two characters'
const URL = 'https://id.example.com/keys'
const AMBIGUOUS = { kind: 'ambiguous' }
const NONE = { kind: 'none' }
const ALICE = { kind: 'value', value: '"alice"' }

let key: SigningKey
let other: SigningKey
let rsa: SigningKey
beforeAll(async () => {
  key = await makeKey('one')
  other = await makeKey('two')
  rsa = await makeKey('rsa', 'RS256')
})

/** What verifies, a clock for it, and who publishes the keys. */
function subject({
  keys: kind = 'jwks',
  ...settings
}: Partial<Omit<JwtSettings, 'keys'>> & { keys?: 'jwks' | 'secret' } = {}) {
  const clock = { now: NOW }
  const site = {
    requested: 0,
    keys: [key.jwk, rsa.jwk] as unknown[],
    answer: (): Response | Promise<Response> => Response.json({ keys: site.keys }),
  }
  const background: Promise<unknown>[] = []
  const log: object[] = []
  const loading = loadTokenVerifier(
    {
      keys: kind === 'jwks' ? { kind, url: URL } : { kind, secret: SECRET },
      issuer: undefined,
      audience: undefined,
      ...settings,
    },
    {
      now: () => clock.now,
      log: (_level, fields) => log.push(fields),
      fetch: async () => {
        site.requested++
        return site.answer()
      },
    },
  )
  const sub = async (authorization: string | null, context = callContext(background)) =>
    (await loading)(['sub'], authorization, context)
  return {
    clock,
    site,
    background,
    log,
    read: async (...args: Parameters<ClaimReader>) => (await loading)(...args),
    sub,
    of: async (token: string | Promise<string>) => sub(`Bearer ${await token}`),
  }
}

const sign = (claims: JWTPayload, by: Parameters<typeof signToken>[1] = key) => signToken(claims, by, NOW)

test('a token that a published key has signed is read', async () => {
  const { sub, of } = subject()
  const token = await sign({ sub: 'alice' })
  expect(await of(token)).toEqual(ALICE)
  expect(await of(sign({ sub: 'alice' }, rsa))).toEqual(ALICE)
  for (const field of [`bearer ${token}`, `  Bearer   ${token} `, `DPoP ${token}`, token])
    expect(await sub(field)).toEqual(ALICE)
})

test.each([null, '', ' ', 'Bearer', 'bearer '])('a request without a token has no claims: %j', async (field) => {
  expect(await subject().sub(field)).toEqual(NONE)
})

test('a token without the claim lacks it, whoever has signed it', async () => {
  expect(await subject().of(sign({}))).toEqual(NONE)
})

test.each(['HS256', 'HS384', 'HS512'])('a token that the shared secret has signed by %s is read', async (alg) => {
  expect(await subject({ keys: 'secret' }).of(sign({ sub: 'alice' }, { secret: SECRET, alg }))).toEqual(ALICE)
})

describe('a forged token is none:', () => {
  const findSecrets = async () => [await exportSPKI(key.publicKey), JSON.stringify(key.jwk), `${key.jwk.x}`, URL]

  test('signed by HMAC with something public', async () => {
    const { of, site } = subject()
    for (const secret of await findSecrets()) {
      for (const kid of ['one', undefined]) {
        const header = { alg: 'HS256', ...(kid && { kid }) }
        const token = new SignJWT({ sub: 'alice' }).setProtectedHeader(header).sign(new TextEncoder().encode(secret))
        expect(await of(token)).toEqual(AMBIGUOUS)
      }
    }
    // An algorithm that is not taken is no reason to ask for keys.
    expect(site.requested).toBe(0)
  })

  test.each(['none', 'None', 'NONE', '', 'nOnE', undefined, null, 1, ['RS256'], 'HS256', 'RS256', 'dir', 'ES256K'])(
    'without a signature, by %j',
    async (alg) => {
      for (const signature of ['', 'AA', base64url.encode('x'.repeat(64))]) {
        const token = `${encodePart({ alg, kid: 'one' })}.${encodePart({ sub: 'alice' })}.${signature}`
        expect(await subject().of(token)).toEqual(AMBIGUOUS)
        expect(await subject({ keys: 'secret' }).of(token)).toEqual(AMBIGUOUS)
      }
    },
  )

  test('signed by a key that is not published, under the name of one that is', async () => {
    const { of } = subject()
    expect(await of(sign({ sub: 'alice' }, { ...other, kid: 'one' }))).toEqual(AMBIGUOUS)
    expect(await of(sign({ sub: 'alice' }, { ...rsa, kid: 'one' }))).toEqual(AMBIGUOUS)
  })

  test('with a key of its own in the header', async () => {
    const { of } = subject()
    for (const header of [{ jwk: other.jwk }, { jku: 'https://evil.example/keys' }, { x5u: 'https://evil.example/' }]) {
      const token = new SignJWT({ sub: 'alice' })
        .setProtectedHeader({ alg: 'ES256', kid: 'one', ...(header as object) })
        .sign(other.privateKey)
      expect(await of(token)).toEqual(AMBIGUOUS)
    }
  })

  test('that demands what is not understood', async () => {
    const { of } = subject()
    const header = { alg: 'ES256', kid: 'one', crit: ['b64'], b64: false }
    const unencoded = `${encodePart(header)}.${encodePart({ sub: 'alice' })}.AAAA`
    expect(await of(unencoded)).toEqual(AMBIGUOUS)
  })

  test('by a secret, where keys are published; by a key, where there is a secret', async () => {
    expect(await subject().of(sign({ sub: 'alice' }, { secret: SECRET }))).toEqual(AMBIGUOUS)
    expect(await subject({ keys: 'secret' }).of(sign({ sub: 'alice' }))).toEqual(AMBIGUOUS)
    expect(await subject({ keys: 'secret' }).of(sign({ sub: 'alice' }, { secret: `${SECRET}.` }))).toEqual(AMBIGUOUS)
  })

  test('by a shared or a private key that somebody has published', async () => {
    const { of, site } = subject()
    site.keys = [key.jwk, { kty: 'oct', kid: 'oct', k: base64url.encode(SECRET), alg: 'HS256' }]
    const header = { alg: 'HS256', kid: 'oct' }
    const token = new SignJWT({ sub: 'alice' }).setProtectedHeader(header).sign(new TextEncoder().encode(SECRET))
    expect(await of(token)).toEqual(AMBIGUOUS)
  })
})

test.each([
  ['Bearer {} {}'],
  ['{} {}'],
  ['Bearer {}, Bearer {}'],
  ['Bearer {},{}'],
  ['Bearer {}.'],
  ['Bearer {}.{}'],
  ['Bearer {}='],
  ['Bearer "{}"'],
  ['Bearer a {}'],
  ['Basic dTpw'],
  ['opaque'],
])('a field that is more or less than a token can be read by nobody: %s', async (field) => {
  const { sub } = subject()
  expect(await sub(field.replaceAll('{}', await sign({ sub: 'alice' })))).toEqual(AMBIGUOUS)
})

test('a huge token is not looked at', async () => {
  const { sub, site } = subject()
  const token = await sign({ sub: 'alice', pad: 'x'.repeat(7_000) })
  const decode = vi.spyOn(JSON, 'parse')
  expect(await sub(`Bearer ${token}`)).toEqual(AMBIGUOUS)
  expect(await sub(`Bearer ${'e.'.repeat(500_000)}e`)).toEqual(AMBIGUOUS)
  expect([decode.mock.calls.length, site.requested]).toEqual([0, 0])
})

describe('times', () => {
  const at = (seconds: number) => NOW / 1_000 + seconds
  test.each<[JWTPayload, typeof ALICE | typeof AMBIGUOUS]>([
    [{ exp: at(1) }, ALICE],
    // Clocks may differ by 30 seconds.
    [{ exp: at(-29) }, ALICE],
    [{ exp: at(-30) }, AMBIGUOUS],
    [{ exp: at(-3_600) }, AMBIGUOUS],
    [{ nbf: at(30) }, ALICE],
    [{ nbf: at(31) }, AMBIGUOUS],
    [{ nbf: at(-1), exp: at(60) }, ALICE],
    [{ iat: at(3_600) }, ALICE],
    [{ exp: `${at(60)}` as never }, AMBIGUOUS],
    [{ nbf: 'now' as never }, AMBIGUOUS],
  ])('%j', async (claims, expected) => {
    expect(await subject().of(sign({ sub: 'alice', ...claims }))).toEqual(expected)
  })

  test('what was verified is remembered no longer than it holds', async () => {
    const { clock, of } = subject()
    const token = await sign({ sub: 'alice', exp: at(60) })
    expect(await of(token)).toEqual(ALICE)
    clock.now += 89_999
    expect(await of(token)).toEqual(ALICE)
    clock.now += 1
    expect(await of(token)).toEqual(AMBIGUOUS)
  })
})

describe('issuer and audience', () => {
  const settings = { issuer: 'https://id.example.com/', audience: 'api' }
  test.each<[JWTPayload, typeof ALICE | typeof AMBIGUOUS]>([
    [{ iss: 'https://id.example.com/', aud: 'api' }, ALICE],
    [{ iss: 'https://id.example.com/', aud: ['web', 'api'] }, ALICE],
    [{ iss: 'https://id.example.com', aud: 'api' }, AMBIGUOUS],
    [{ iss: 'https://id.example.com/', aud: 'web' }, AMBIGUOUS],
    [{ iss: 'https://id.example.com/', aud: 'API' }, AMBIGUOUS],
    [{ iss: 'https://id.example.com/' }, AMBIGUOUS],
    [{ aud: 'api' }, AMBIGUOUS],
    [{ iss: ['https://id.example.com/'] as never, aud: 'api' }, AMBIGUOUS],
  ])('%j', async (claims, expected) => {
    expect(await subject(settings).of(sign({ sub: 'alice', ...claims }))).toEqual(expected)
  })
})

describe('work', () => {
  test('a token that comes again costs no signature check', async () => {
    const verify = vi.spyOn(crypto.subtle, 'verify')
    const { of } = subject()
    const token = await sign({ sub: 'alice' })
    for (let i = 0; i < 20; i++) expect(await of(token)).toEqual(ALICE)
    expect(verify).toHaveBeenCalledTimes(1)
  })

  test('after ten minutes it is verified again, since its key may have been withdrawn', async () => {
    const { clock, site, background, of } = subject()
    const token = await sign({ sub: 'alice' })
    expect(await of(token)).toEqual(ALICE)
    site.keys = [other.jwk]
    clock.now += 599_999
    expect(await of(token)).toEqual(ALICE)
    clock.now += 1
    // The keys are as old, and still used once while others are asked for.
    expect(await of(token)).toEqual(ALICE)
    await Promise.all(background)
    clock.now += 600_000
    expect(await of(token)).toEqual(AMBIGUOUS)
  })

  test('a request with a bad token has it checked once, however many claims are read', async () => {
    const verify = vi.spyOn(crypto.subtle, 'verify')
    const { read } = subject()
    const token = `Bearer ${await sign({ sub: 'alice' }, { ...other, kid: 'one' })}`
    const context = callContext()
    for (let i = 0; i < 20; i++) expect(await read([`claim${i}`], token, context)).toEqual(AMBIGUOUS)
    expect(verify).toHaveBeenCalledTimes(1)
  })

  test('no more tokens are remembered than there is room for, those used last', async () => {
    const { of } = subject()
    const hot = await sign({ sub: 'alice' })
    await of(hot)
    const verify = vi.spyOn(crypto.subtle, 'verify')
    const pad = 'x'.repeat(5_000)
    for (let i = 0; i < 600; i++) {
      await of(sign({ sub: `${i}`, pad }))
      await of(hot)
    }
    expect(verify).toHaveBeenCalledTimes(600)
    await of(sign({ sub: '0', pad }))
    expect(verify).toHaveBeenCalledTimes(601)
  })
})

describe('keys', () => {
  test('are fetched once, by the first token', async () => {
    const { of, site } = subject()
    expect(site.requested).toBe(0)
    for (let i = 0; i < 5; i++) expect(await of(sign({ sub: 'alice', i }))).toEqual(ALICE)
    expect(site.requested).toBe(1)
  })

  test('are fetched once by requests that come together', async () => {
    const { of, site } = subject()
    site.answer = async () => {
      await new Promise((resolve) => setTimeout(resolve, 50))
      return Response.json({ keys: site.keys })
    }
    const tokens = await Promise.all(Array.from({ length: 10 }, (_, i) => sign({ sub: 'alice', i })))
    expect(await Promise.all(tokens.map(of))).toEqual(tokens.map(() => ALICE))
    expect(site.requested).toBe(1)
  })

  test('are fetched again by a token that names an unknown one, at most every 30 seconds', async () => {
    const { clock, of, site } = subject()
    expect(await of(sign({ sub: 'alice' }))).toEqual(ALICE)
    site.keys = [key.jwk, other.jwk]
    expect(await of(sign({ sub: 'alice' }, other))).toEqual(ALICE)
    expect(site.requested).toBe(2)
    for (let i = 0; i < 20; i++)
      expect(await of(sign({ sub: 'alice' }, { ...other, kid: `made up ${i}` }))).toEqual(AMBIGUOUS)
    expect(site.requested).toBe(2)
    clock.now += 29_999
    expect(await of(sign({ sub: 'alice' }, { ...other, kid: 'made up' }))).toEqual(AMBIGUOUS)
    expect(site.requested).toBe(2)
    clock.now += 1
    expect(await of(sign({ sub: 'alice' }, { ...other, kid: 'made up' }))).toEqual(AMBIGUOUS)
    expect(site.requested).toBe(3)
    expect(await of(sign({ sub: 'alice', again: true }))).toEqual(ALICE)
  })

  test('that just came are not fetched again', async () => {
    const { of, site } = subject()
    expect(await of(sign({ sub: 'alice' }, other))).toEqual(AMBIGUOUS)
    expect(site.requested).toBe(1)
  })

  test('of ten minutes are used, and fetched behind the request', async () => {
    const { clock, of, site, background } = subject()
    await of(sign({ sub: 'alice' }))
    background.splice(0)
    clock.now += 599_999
    await of(sign({ sub: 'alice', i: 1 }))
    expect([site.requested, background.length]).toEqual([1, 0])
    clock.now += 1
    site.keys = [other.jwk]
    expect(await of(sign({ sub: 'alice', exp: clock.now }))).toEqual(ALICE)
    expect([site.requested, background.length]).toEqual([2, 1])
    await Promise.all(background)
    expect(await of(sign({ sub: 'alice', exp: clock.now + 1 }, other))).toEqual(ALICE)
  })

  test('stay while nobody publishes any', async () => {
    const { clock, of, site, background, log } = subject()
    expect(await of(sign({ sub: 'alice' }))).toEqual(ALICE)
    const bad = ['', '{', '[]', '{"keys":1}', '{"keys":[]}', '{"keys":[1,null,{"kty":"oct","k":"AAAA"}]}']
    for (const body of bad) {
      clock.now += 600_000
      site.answer = () => new Response(body)
      expect(await of(sign({ sub: 'alice', exp: clock.now }))).toEqual(ALICE)
      await Promise.all(background.splice(0))
    }
    expect(site.requested).toBe(1 + bad.length)
    expect(log).toHaveLength(bad.length)
    // Not asked for again at once, either.
    for (let i = 0; i < 5; i++) await of(sign({ sub: 'alice', exp: clock.now + i }))
    expect(site.requested).toBe(1 + bad.length)
  })

  test.each<[string, () => Response | Promise<Response>]>([
    ['an error', () => Promise.reject(new TypeError('connection refused'))],
    ['500', () => Response.json({ keys: [key.jwk] }, { status: 500 })],
    ['a redirect', () => new Response(null, { status: 302, headers: { Location: 'https://evil.example/' } })],
    ['too much', () => Response.json({ keys: [key.jwk], pad: 'x'.repeat(200_000) })],
  ])('that cannot be had leave a token unverified, and are fetched once a second: %s', async (_, answer) => {
    const { clock, of, site, log } = subject()
    site.answer = answer
    for (let i = 0; i < 5; i++) expect(await of(sign({ sub: 'alice', i }))).toEqual(AMBIGUOUS)
    expect(site.requested).toBe(1)
    expect(log).toEqual([{ event: 'jwks_unavailable', message: expect.any(String), hasOlder: false }])
    clock.now += 1_000
    site.answer = () => Response.json({ keys: site.keys })
    expect(await of(sign({ sub: 'alice' }))).toEqual(ALICE)
  })

  test('of a site that never answers are waited for no longer than two seconds', { tags: ['slow'] }, async () => {
    const { read, sub, site } = subject()
    site.answer = () => new Promise(() => {})
    const [one, two] = [`Bearer ${await sign({ sub: 'alice' })}`, `Bearer ${await sign({ sub: 'bob' })}`]
    // The deadline of the one that asks is that of `fetch`, which here has none.
    void read(['sub'], one, callContext())
    expect(await sub(two)).toEqual(AMBIGUOUS)
    expect(site.requested).toBe(1)
  })

  test('need no name: each that may be meant is tried', async () => {
    const { of, site } = subject()
    const bare = () => new SignJWT({ sub: 'alice' }).setProtectedHeader({ alg: 'ES256' }).sign(key.privateKey)
    expect(await of(bare())).toEqual(ALICE)
    site.keys = [key.jwk, other.jwk]
    expect(await subject().of(bare())).toEqual(ALICE)
    for (const keys of [
      [key.jwk, key.jwk],
      [other.jwk, key.jwk],
    ]) {
      const two = subject()
      two.site.keys = keys
      expect(await two.of(bare())).toEqual(ALICE)
    }
    const none = subject()
    none.site.keys = [other.jwk, other.jwk]
    expect(await none.of(bare())).toEqual(AMBIGUOUS)
  })
})
