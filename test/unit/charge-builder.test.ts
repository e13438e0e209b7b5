import { expect, test } from 'vitest'
import { type Environment, loadConfig } from '../../src/http/config/load-config.ts'
import { RequestChargeBuilder } from '../../src/http/request/charge-builder.ts'
import { makeChargeKey } from '../support/make-charge.ts'

/** Makes the key of a request by the first of the policies. */
function keys(env: Environment = {}) {
  const config = loadConfig({ UPSTREAM_URL: 'https://api.example.com', ...env })
  const builder = new RequestChargeBuilder(config)
  const policy = config.policies[0] ?? expect.unreachable()
  return (headers: Readonly<Record<string, string>>) =>
    makeChargeKey(builder, policy, new Request('https://gateway.example/', { headers }))
}

test('RequestChargeBuilder#build() knows a caller again by any spelling of the same credential', async () => {
  const findKey = keys()
  const spellings = ['Bearer X', 'bearer X', 'BEARER   X', 'Bearer X']
  const found = await Promise.all([...spellings, ...spellings].map((Authorization) => findKey({ Authorization })))
  expect(new Set(found).size).toBe(1)
  expect(await findKey({ Authorization: 'Bearer x' })).not.toBe(found[0])
})

test('RequestChargeBuilder#build() answers the same to a caller that it knows as to one that it does not', async () => {
  const known = keys()
  for (const Authorization of ['Bearer X', 'Basic abc', 'Digest a="b", c=d', 'lonely', '']) {
    const first = await known({ Authorization })
    expect([await known({ Authorization }), await keys()({ Authorization })]).toEqual([first, first])
  }
})

test('RequestChargeBuilder#build() remembers nobody by a credential that it cannot read', async () => {
  const findKey = keys()
  const by = (address: string) => findKey({ Authorization: 'Bearer a b', 'CF-Connecting-IP': address })
  const one = await by('203.0.113.1')
  expect(await by('203.0.113.2')).not.toBe(one)
  expect(await by('203.0.113.1')).toBe(one)
})

test('RequestChargeBuilder#build() goes by all that a policy counts by, not by a known token alone', async () => {
  const findKey = keys({ POLICIES: [{ name: 'both', limits: '5/1m', by: 'token+ip' }], RATE_LIMITS: undefined })
  const by = (address: string) => findKey({ Authorization: 'Bearer X', 'CF-Connecting-IP': address })
  const one = await by('203.0.113.1')
  expect(await by('203.0.113.2')).not.toBe(one)
  expect(await by('203.0.113.1')).toBe(one)
})

test('RequestChargeBuilder#build() keeps the same caller of two policies apart', async () => {
  const config = loadConfig({
    UPSTREAM_URL: 'https://api.example.com',
    POLICIES: ['a', 'b'].map((name) => ({ name, limits: '5/1m' })),
  })
  const builder = new RequestChargeBuilder(config)
  const request = new Request('https://gateway.example/', { headers: { Authorization: 'Bearer X' } })
  const found = await Promise.all(config.policies.map((policy) => makeChargeKey(builder, policy, request)))
  expect(found).toHaveLength(2)
  expect(found[0]?.replace(':a:', ':b:')).toBe(found[1])
})
