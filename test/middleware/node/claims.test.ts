/** Claims of tokens that the keys of a site verify. */
import { expect, onTestFinished, test } from 'vitest'
import { startKeySite } from '../../support/key-site.ts'
import { makeKey, signToken } from '../../support/tokens.ts'
import { readRemaining, start } from '../matrix/adapter.ts'
import { NODE_ADAPTERS } from '../matrix/node-adapters.ts'
import { WEB_ADAPTERS } from '../matrix/web-adapters.ts'

test.each([...WEB_ADAPTERS, ...NODE_ADAPTERS])('$name counts by a claim, and finds new keys', async (adapter) => {
  const [first, second] = [await makeKey('first'), await makeKey('second', 'EdDSA')]
  const site = await startKeySite([first.jwk])
  onTestFinished(() => site.stop())
  const { send } = await start(adapter, {
    policies: [{ name: 'users', limits: '2/1h', by: 'claim:sub', anonymous: 'deny:403' }],
    jwt: { jwksUrl: site.url, issuer: 'me' },
    now: Date.now,
  })
  const call = async (...tokens: readonly string[]) => {
    const response = await send({ headers: { Authorization: tokens.map((token) => `Bearer ${token}`) } })
    return [response.status, ...readRemaining(response)]
  }
  const alice = await signToken({ sub: 'alice', iss: 'me' }, first)
  expect(await call(alice)).toEqual([200, 1])
  expect(await call(alice)).toEqual([200, 0])
  expect(await call(alice)).toEqual([429, 0])
  expect(await call(await signToken({ sub: 'bob', iss: 'you' }, first))).toEqual([403])
  expect(await call(alice, alice)).toEqual([403])
  expect(await call()).toEqual([403])
  site.keys = [second.jwk]
  expect(await call(await signToken({ sub: 'bob', iss: 'me' }, second))).toEqual([200, 1])
  expect(site.requested).toBe(2)
})
