/** Claims of verified tokens, in the middleware for Hono. */
import { Hono } from 'hono'
import { describe, expect, test } from 'vitest'
import { OptionError, type SluiceOptions, sluice } from '../../../src/hono.ts'
import { makeKey, signToken } from '../../support/tokens.ts'

const SECRET = 'a secret of thirty-two characters'
const BY_CLAIM = { limits: '2/1h', by: 'claim:sub', anonymous: 'deny', log: () => {} }

function appWith(options: SluiceOptions) {
  const app = new Hono()
  app.use(sluice(options))
  app.all('*', (c) => c.text('hello'))
  return async (claims?: object, secret = SECRET) => {
    const headers = { ...(claims && { Authorization: `Bearer ${await signToken({ ...claims }, { secret })}` }) }
    const { status, headers: fields } = await app.request('/', { headers })
    return [status, /r=(\d+)/.exec(fields.get('RateLimit') ?? '')?.[1]]
  }
}

test('sluice() counts by a claim', async () => {
  const call = appWith({ ...BY_CLAIM, jwt: { secret: SECRET } })
  expect(await call({ sub: 'alice' })).toEqual([200, '1'])
  expect(await call({ sub: 'alice', jti: '2' })).toEqual([200, '0'])
  expect(await call({ sub: 'alice', jti: '3' })).toEqual([429, '0'])
  expect(await call({ sub: 'bob' })).toEqual([200, '1'])
  expect(await call()).toEqual([401, undefined])
  expect(await call({ sub: 'bob' }, 'x'.repeat(32))).toEqual([401, undefined])
  expect(await call({ sub: 'bob', exp: 1 })).toEqual([401, undefined])
})

test('sluice() gives each caller the limits of the plan that a claim says', async () => {
  const policy = { name: 'api', limits: { free: '2/1h', pro: '9/1h' }, plan: 'claim:plan', default_plan: 'free' }
  const call = appWith({ policies: [{ ...policy, by: 'claim:sub' }], jwt: { secret: SECRET }, log: () => {} })
  expect(await call({ sub: 'alice', plan: 'pro' })).toEqual([200, '8'])
  expect(await call({ sub: 'bob', plan: 'gold' })).toEqual([200, '1'])
  expect(await call({ sub: 'carol', plan: ['pro'] })).toEqual([200, '1'])
  expect(await call({ sub: 'dave', plan: 'pro' }, 'x'.repeat(32))).toEqual([200, '1'])
})

test('sluice() does not take a public key for a secret', async () => {
  const { jwk } = await makeKey('one')
  const call = appWith({ ...BY_CLAIM, jwt: { jwksUrl: 'https://id.example.invalid/keys' } })
  expect(await call({ sub: 'alice' }, JSON.stringify(jwk))).toEqual([401, undefined])
})

describe('sluice() refuses, in one line,', () => {
  test.each<[Partial<SluiceOptions>, string]>([
    [{ jwt: undefined }, 'by: expected jwt.jwksUrl or jwt.secret beside a claim, got "claim:sub"'],
    [{ jwt: {} }, 'by: expected jwt.jwksUrl or jwt.secret beside a claim, got "claim:sub"'],
    [
      { jwt: { secret: SECRET, jwksUrl: 'https://id.example.com/keys' } },
      'jwt.secret: expected none beside jwt.jwksUrl, got a value not shown here',
    ],
    [
      { by: 'ip' },
      'jwt.secret: expected a policy with by or plan = "claim:<name>" beside it, got a value not shown here',
    ],
    [{ jwt: { secret: 'short' } }, 'jwt.secret: expected at least 32 characters, got a value not shown here'],
    [
      { jwt: { secrets: SECRET } as never },
      'jwt.secrets: unknown option; expected one of jwksUrl, secret, issuer, audience',
    ],
    [{ jwt: SECRET as never }, 'jwt: expected a table of options, got a value not shown here'],
    [
      { jwt: { jwksUrl: 'http://id.example.com' } },
      'jwt.jwksUrl: expected an https URL without credentials or fragment (http only to this machine), got "http://id.example.com"',
    ],
    [
      { by: 'ip', jwt: undefined, policies: [{ name: 'p', limits: '1/1m', by: 'claim:sub' }] },
      'policies[0].by: expected jwt.jwksUrl or jwt.secret beside a claim, got "claim:sub"',
    ],
  ])('%j', (options, message) => {
    const make = () => sluice({ ...BY_CLAIM, jwt: { secret: SECRET }, ...options })
    expect(make).toThrow(OptionError)
    expect(make).toThrow(expect.objectContaining({ message }))
  })
})
