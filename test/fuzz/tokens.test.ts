/** Tokens that are changed in any way say nothing, or what they said before. */
import fc from 'fast-check'
import { beforeAll, describe, expect } from 'vitest'
import type { ClaimReader } from '../../src/http/request/identity/claims.ts'
import { loadTokenVerifier } from '../../src/http/request/identity/jwt/verify-tokens.ts'
import { callContext } from '../support/call-context.ts'
import { encodePart, makeKey, type SigningKey, signToken } from '../support/tokens.ts'
import { fuzz } from './fuzz.ts'
import { anyText } from './strings.ts'

const SECRET = 'a secret of thirty-two characters'
const ALICE = { kind: 'value', value: '"alice"' }
const BOB = { kind: 'value', value: '"bob"' }

let key: SigningKey
let readers: readonly ClaimReader[]
/** Of alice and bob, by the key and by the secret. */
let tokens: readonly string[]

beforeAll(async () => {
  key = await makeKey('one')
  const parts = {
    now: Date.now,
    log: () => {},
    fetch: async () => Response.json({ keys: [key.jwk] }),
  }
  const claims = { issuer: undefined, audience: undefined }
  readers = await Promise.all([
    loadTokenVerifier({ keys: { kind: 'jwks', url: 'https://id.example.com' }, ...claims }, parts),
    loadTokenVerifier({ keys: { kind: 'secret', secret: SECRET }, ...claims }, parts),
  ])
  const by = [key, { secret: SECRET }]
  tokens = await Promise.all(by.flatMap((each) => ['alice', 'bob'].map((sub) => signToken({ sub }, each))))
})

const findSubs = (field: string) => Promise.all(readers.map((read) => read(['sub'], field, callContext())))

const alg = fc.oneof(
  fc.constantFrom('none', 'HS256', 'HS384', 'HS512', 'RS256', 'PS256', 'ES256', 'ES384', 'EdDSA', 'dir', 'A128KW'),
  anyText,
  fc.jsonValue(),
)
const header = fc.record(
  {
    alg,
    kid: fc.oneof(fc.constant('one'), anyText, fc.jsonValue()),
    typ: fc.constantFrom('JWT', 'at+jwt', 'x'),
    crit: fc.oneof(fc.constant(['exp']), fc.jsonValue()),
    b64: fc.boolean(),
    jwk: fc.jsonValue(),
    jku: fc.webUrl(),
  },
  { requiredKeys: ['alg'] },
)
const part = fc.oneof(
  header.map(encodePart),
  fc.constant(encodePart({ sub: 'mallory' })),
  fc.jsonValue().map((value) => encodePart(value)),
  anyText.map(encodePart),
  fc.base64String().map((text) => text.replace(/[+/=]/g, '_')),
  fc.constant(''),
)

describe('a verifier of tokens', () => {
  fuzz(
    'takes no token that was made by a stranger',
    300,
    fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 5 }), async (parts) => {
      for (const reading of await findSubs(`Bearer ${parts.join('.')}`)) expect(reading.kind).not.toBe('value')
    }),
  )

  fuzz(
    'takes no part of a token for another',
    300,
    fc.asyncProperty(
      fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 3 }), fc.nat({ max: 3 })),
      fc.option(fc.tuple(fc.nat({ max: 2 }), part)),
      async (from, replaced) => {
        const parts = from.map((index, at) => tokens[index]?.split('.')[at] ?? '')
        if (replaced) parts[replaced[0]] = replaced[1]
        const token = parts.join('.')
        const whole = tokens.indexOf(token)
        const subs = await findSubs(`Bearer ${token}`)
        if (whole < 0) expect(subs).toEqual([{ kind: 'ambiguous' }, { kind: 'ambiguous' }])
        else expect(subs[whole < 2 ? 0 : 1]).toEqual([ALICE, BOB][whole % 2])
      },
    ),
  )

  fuzz(
    'reads a token with a letter more, less or changed as what it was, or not at all',
    300,
    fc.asyncProperty(
      fc.nat({ max: 3 }),
      fc.nat(),
      fc.nat({ max: 1 }),
      fc.oneof(fc.constantFrom('', 'A', '.', '=', ' ', ','), anyText),
      async (index, at, cut, text) => {
        const token = tokens[index] ?? ''
        const place = at % (token.length + 1)
        const changed = token.slice(0, place) + text + token.slice(place + cut)
        for (const reading of await findSubs(`Bearer ${changed}`)) {
          if (reading.kind === 'value') expect(reading).toEqual([ALICE, BOB][index % 2])
        }
      },
    ),
  )
})
