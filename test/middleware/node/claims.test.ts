/** Claims of tokens that a site's keys verify, in front of a server of Node. */
import { expect, onTestFinished, test } from 'vitest'
import { sluice } from '../../../src/node.ts'
import { startKeySite } from '../../support/key-site.ts'
import { makeKey, signToken } from '../../support/tokens.ts'
import { startUpstream } from '../../support/upstream.ts'

test('sluice() counts by a claim, and finds new keys', async () => {
  const [first, second] = [await makeKey('first'), await makeKey('second', 'EdDSA')]
  const site = await startKeySite([first.jwk])
  const limit = sluice({
    policies: [{ name: 'users', limits: '2/1h', by: 'claim:sub', anonymous: 'deny:403' }],
    jwt: { jwksUrl: site.url, issuer: 'me' },
    log: () => {},
  })
  const server = await startUpstream((req, res) => limit(req, res, () => res.end('hello')))
  onTestFinished(async () => {
    await Promise.all([server.stop(), site.stop()])
  })
  const call = async (...tokens: readonly string[]) => {
    const headers = tokens.map((token): [string, string] => ['Authorization', `Bearer ${token}`])
    const { status, headers: fields } = await fetch(server.url, { headers })
    return [status, /r=(\d+)/.exec(fields.get('RateLimit') ?? '')?.[1]]
  }
  const alice = await signToken({ sub: 'alice', iss: 'me' }, first)
  expect(await call(alice)).toEqual([200, '1'])
  expect(await call(alice)).toEqual([200, '0'])
  expect(await call(alice)).toEqual([429, '0'])
  expect(await call(await signToken({ sub: 'bob', iss: 'you' }, first))).toEqual([403, undefined])
  expect(await call(alice, alice)).toEqual([403, undefined])
  expect(await call()).toEqual([403, undefined])
  site.keys = [second.jwk]
  expect(await call(await signToken({ sub: 'bob', iss: 'me' }, second))).toEqual([200, '1'])
  expect(site.asked).toBe(2)
})
