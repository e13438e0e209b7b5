/** Policies by claims of verified tokens, in the production bundle, with a site that publishes keys. */
import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { RedisDocuments } from '../../src/core/store/redis/documents/redis-documents.ts'
import { adaptNodeRedis } from '../../src/core/store/redis/tcp-clients.ts'
import { withEntry } from '../../src/gateway/rules/edit-rules.ts'
import { editRules } from '../support/edit-rules.ts'
import { startGateway } from '../support/gateway.ts'
import { type KeySite, startKeySite } from '../support/key-site.ts'
import { startRecordingUpstream } from '../support/recording-upstream.ts'
import { connectRedis } from '../support/redis-client.ts'
import { share } from '../support/share.ts'
import { makeKey, type SigningKey, signToken } from '../support/tokens.ts'

const POLICIES = [
  {
    name: 'users',
    limits: { free: '2/1h', pro: '5/1h' },
    by: 'claim:sub',
    plan: 'claim:/account/plan',
    default_plan: 'free',
    anonymous: 'deny',
  },
]
const SECRET = 'a secret of thirty-two characters'

const upstream = share(startRecordingUpstream)
let first: SigningKey
let second: SigningKey
beforeAll(async () => {
  first = await makeKey('first')
  second = await makeKey('second', 'RS256')
})

async function subject(bindings: Readonly<Record<string, unknown>> = {}, site?: KeySite) {
  const gateway = await startGateway({
    UPSTREAM_URL: upstream.url,
    POLICIES,
    ...(site && { JWKS_URL: site.url }),
    ...bindings,
  })
  onTestFinished(() => gateway.stop())
  return Object.assign(call, { url: gateway.url })

  async function call(token?: string | Promise<string>, scheme = 'Bearer ') {
    const headers = { ...(token && { Authorization: `${scheme}${await token}` }) }
    const response = await fetch(gateway.url, { headers })
    await response.arrayBuffer()
    const [, left] = /r=(\d+)/.exec(response.headers.get('RateLimit') ?? '') ?? []
    return left === undefined ? response.status : [response.status, Number(left)]
  }
}

async function publishedKeys(...keys: SigningKey[]): Promise<KeySite> {
  const site = await startKeySite(keys.map(({ jwk }) => jwk))
  onTestFinished(() => site.stop())
  return site
}

test('callers are counted by a claim, and have the limits of the plan that another claim says', async () => {
  const call = await subject({}, await publishedKeys(first, second))
  expect(await call(signToken({ sub: 'alice' }, first))).toEqual([200, 1])
  // Another token of the same caller, signed by another key.
  expect(await call(signToken({ sub: 'alice', jti: 'x' }, second))).toEqual([200, 0])
  expect(await call(signToken({ sub: 'alice' }, first))).toEqual([429, 0])
  const pro = { account: { plan: 'pro' } }
  expect(await call(signToken({ sub: 'alice', ...pro }, first))).toEqual([200, 2])
  expect(await call(signToken({ sub: 'bob', ...pro }, first))).toEqual([200, 4])
  expect(await call(signToken({ sub: 'carol', account: { plan: 'gold' } }, first))).toEqual([200, 1])
  expect(await call()).toBe(401)
  expect(await call('opaque')).toBe(401)
  expect(await call(signToken({ name: 'nobody' }, first))).toBe(401)
})

test('the API gets the token as it came', async () => {
  const call = await subject({}, await publishedKeys(first))
  const token = await signToken({ sub: 'alice' }, first)
  upstream.take()
  await call(token)
  expect(upstream.take().map(({ headers }) => headers.authorization)).toEqual([`Bearer ${token}`])
})

test('a new key is found when the first token names it, and one that was withdrawn verifies nothing new', async () => {
  const site = await publishedKeys(first)
  const call = await subject({}, site)
  expect(await call(signToken({ sub: 'alice' }, first))).toEqual([200, 1])
  site.keys = [second.jwk]
  expect(await call(signToken({ sub: 'bob' }, second))).toEqual([200, 1])
  expect(await call(signToken({ sub: 'carol' }, first))).toBe(401)
  expect(site.requested).toBe(2)
  // Nobody makes the gateway ask more often by naming keys.
  for (let i = 0; i < 10; i++) expect(await call(signToken({ sub: 'bob' }, { ...second, kid: `${i}` }))).toBe(401)
  expect(site.requested).toBe(2)
})

describe.each([
  { mood: 'unavailable', tags: [] },
  { mood: 'broken', tags: [] },
  // It is waited for two seconds.
  { mood: 'silent', tags: ['slow'] },
] as const)('while the site with the keys is $mood', ({ mood, tags }) => {
  test('tokens are as none; those that are known still hold', { tags: [...tags] }, async () => {
    const site = await publishedKeys(first)
    site.mood = mood
    const call = await subject({}, site)
    const tokens = await Promise.all(['alice', 'bob', 'carol'].map((sub) => signToken({ sub }, first)))
    expect(await Promise.all(tokens.map((token) => call(token)))).toEqual([401, 401, 401])
    expect(site.requested).toBeLessThanOrEqual(2)
    site.mood = 'well'
    await expect.poll(() => call(tokens[0] as string)).toEqual([200, 1])
    site.mood = mood
    expect(await call(tokens[0] as string)).toEqual([200, 0])
    expect(await call(tokens[1] as string)).toEqual([200, 1])
  })
})

test('tokens that a shared secret has signed need no site', async () => {
  const call = await subject({ JWT_SECRET: SECRET, JWT_ISSUER: 'me', JWT_AUDIENCE: 'api' })
  const claims = { sub: 'alice', iss: 'me', aud: 'api' }
  expect(await call(signToken(claims, { secret: SECRET }))).toEqual([200, 1])
  expect(await call(signToken({ ...claims, iss: 'you' }, { secret: SECRET }))).toBe(401)
  expect(await call(signToken({ ...claims, aud: 'web' }, { secret: SECRET }))).toBe(401)
  expect(await call(signToken({ ...claims, exp: 1 }, { secret: SECRET }))).toBe(401)
  expect(await call(signToken(claims, { secret: 'x'.repeat(32) }))).toBe(401)
})

test('operators name a caller by its claims', async () => {
  const ADMIN_TOKEN = 'x'.repeat(32)
  const call = await subject({ ADMIN_TOKEN }, await publishedKeys(first))
  expect(await call(signToken({ sub: 'alice' }, first))).toEqual([200, 1])
  const response = await fetch(new URL('/_sluice/admin/usage', call.url), {
    method: 'POST',
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ caller: { claim: { sub: 'alice', account: { plan: 'pro' } } } }),
  })
  expect(await response.json()).toMatchObject({ limits: [{ policy: 'users', limit: 5, used: 1, remaining: 4 }] })
})

test('rules may name claims where no policy does', async () => {
  const KEY_PREFIX = randomUUID()
  const redis = await connectRedis(inject('redisPort'))
  onTestFinished(() => redis.destroy())
  const client = adaptNodeRedis(redis)
  const documents = new RedisDocuments({ client, key: `${KEY_PREFIX}:rules`, timeoutMs: 60_000 })
  const block = { by: 'claim:sub', value: 'mallory*' }
  expect(await editRules(documents, (rules) => withEntry('blocks', rules, block))).toMatchObject({ changed: true })
  const none = { POLICIES: [{ name: 'plain', limits: '5/1h' }] }
  const call = await subject({ ...none, KEY_PREFIX, RULES: 'on' }, await publishedKeys(first))
  const [mallory, alice] = [await signToken({ sub: 'mallory-1' }, first), await signToken({ sub: 'alice' }, first)]
  expect(await call(mallory)).toBe(403)
  // APIs that are less strict may find the token here too.
  for (const spoilt of [`${mallory} x`, `x, Bearer ${mallory}`, `${mallory}==`, `${alice}, Bearer ${mallory}`]) {
    expect(await call(spoilt)).toBe(403)
  }
  for (const two of [`${mallory} ${alice}`, `${alice} ${mallory}`, `${mallory} ${mallory}`]) {
    expect(await call(two, '')).toBe(403)
  }
  expect(await call(alice)).toEqual([200, 4])
  // Nobody gets another blocked by a token that only looks like it.
  expect(await call(signToken({ sub: 'mallory-1' }, { ...second, alg: 'RS256', kid: 'first' }))).toEqual([200, 4])
})
