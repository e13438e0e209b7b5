import { expect, test } from 'vitest'
import { type IdentitySource, parseBy } from '../../src/core/model/identity-source.ts'
import type { MissingIdentity } from '../../src/core/model/policy.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { readIdentity } from '../../src/http/request/identity/identify.ts'

interface Caller {
  readonly by: string
  readonly headers?: Readonly<Record<string, string>>
  readonly url?: string
  readonly route?: string
  readonly missing?: MissingIdentity
}

function createIdentity({
  by,
  headers = {},
  url = 'https://g.example/',
  route = 'GET /',
  missing = { kind: 'ip' },
}: Caller) {
  const sources = parseBy(by) as readonly IdentitySource[]
  const subject = { request: new Request(url, { headers }), route, ipv6Prefix: 64, context: { waitUntil() {} } }
  return readIdentity(sources, subject, missing)
}

const IP = { 'CF-Connecting-IP': '203.0.113.7' }
const TOKEN = { Authorization: 'Bearer X' }

test.each<[Caller, readonly string[]]>([
  [{ by: 'token', headers: { ...TOKEN, ...IP } }, ['token', 'X']],
  [{ by: 'ip', headers: { ...TOKEN, ...IP } }, ['ip', '203.0.113.7']],
  [{ by: 'route', route: 'GET /users/:id' }, ['route', 'GET /users/:id']],
  [{ by: 'global', headers: { ...TOKEN, ...IP } }, ['global', '']],
  [{ by: 'header:X-Key', headers: { 'x-key': 'K' } }, ['header:x-key', 'K']],
  [{ by: 'query:key', url: 'https://g.example/?a=1&k%65y=K%20L' }, ['query:key', 'K L']],
  [
    { by: 'token+ip+route', headers: { ...TOKEN, ...IP }, route: 'GET /a' },
    ['token', 'X', 'ip', '203.0.113.7', 'route', 'GET /a'],
  ],
])('identify() reads %j', async (caller, parts) => {
  expect(await createIdentity(caller)).toEqual(parts)
})

test.each<Caller>([
  { by: 'token' },
  { by: 'token', headers: { Authorization: '' } },
  { by: 'token', headers: { Authorization: '  ' } },
  { by: 'header:x-key' },
  { by: 'header:x-key', headers: { 'X-Key': '' } },
  { by: 'query:key' },
  { by: 'query:key', url: 'https://g.example/?key=' },
  { by: 'query:key', url: 'https://g.example/?KEY=k' },
  { by: 'query:key', url: 'https://g.example/?key=k&key=l' },
  { by: 'token', headers: { Authorization: 'Bearer' } },
  { by: 'header:x-key', headers: { 'X-Key': 'K, L' } },
  { by: 'token', headers: { Authorization: 'Bearer X, Bearer Y' } },
])('identify() counts a caller without the value by address: %j', async (caller) => {
  expect(await createIdentity({ ...caller, headers: { ...caller.headers, ...IP } })).toEqual(['ip', '203.0.113.7'])
})

test.each<[Caller, boolean]>([
  [{ by: 'token' }, true],
  [{ by: 'token', headers: { Authorization: ' ' } }, true],
  [{ by: 'ip+token' }, true],
  [{ by: 'header:x-key' }, true],
  [{ by: 'query:key' }, true],
  [{ by: 'form:key' }, true],
  [{ by: 'token', headers: TOKEN }, false],
  [{ by: 'ip' }, false],
  [{ by: 'global' }, false],
])('identify() answers what becomes of a caller that lacks a value: %j: %s', async (caller, isMissing) => {
  for (const missing of [{ kind: 'deny', status: 403 }, { kind: 'skip' }] as const) {
    const identity = await createIdentity({ ...caller, missing })
    if (isMissing) expect(identity).toEqual(missing)
    else expect(identity).toBeInstanceOf(Array)
  }
})

test.each<Caller>([
  { by: 'token', headers: { Authorization: 'Bearer X Y' } },
  { by: 'token', headers: { Authorization: 'Bearer X, Bearer Y' } },
  { by: 'token', headers: { Authorization: 'Basic YTpi.' } },
  { by: 'header:x-key', headers: { 'X-Key': 'K, junk' } },
  { by: 'header:x-key', headers: { 'X-Key': 'K\x7f' } },
  { by: 'query:key', url: 'https://g.example/?key=k&k%65y=l' },
  { by: 'query:key', url: 'https://g.example/?key=k&[key]=l' },
  { by: 'query:key', url: 'https://g.example/?KEY=k' },
  { by: 'query:key', url: 'https://g.example/??key=k' },
])('identify() lets nobody leave a policy by spoiling what it counts by: %j', async (caller) => {
  const headers = { ...caller.headers, ...IP }
  expect(await createIdentity({ ...caller, headers, missing: { kind: 'skip' } })).toEqual(['ip', '203.0.113.7'])
  const deny = { kind: 'deny', status: 401 } as const
  expect(await createIdentity({ ...caller, headers, missing: deny })).toEqual(deny)
})

test('identify() gives no two kinds of callers one identity, even if their values are equal', async () => {
  const value = '203.0.113.7'
  const headers = { Authorization: value, 'CF-Connecting-IP': value, 'X-Key': value, 'X-Other': value }
  const url = `https://g.example/?x-key=${value}&x-other=${value}`
  const kinds = ['token', 'ip', 'route', 'global', 'header:x-key', 'header:x-other', 'query:x-key', 'query:x-other']
  const joined = ['token+ip', 'ip+token', 'token+route', 'header:x-key+header:x-other', 'header:x-other+header:x-key']
  const digest = createDigest(undefined)
  const all = await Promise.all(
    [...kinds, ...joined].map(async (by) => {
      const identity = await createIdentity({ by, headers, url, route: value })
      return digest(identity as readonly string[])
    }),
  )
  expect(new Set(all).size).toBe(all.length)
})

test('identify() does not take a value for the address of a caller without one', async () => {
  const forged = await createIdentity({
    by: 'header:x-key',
    headers: { 'X-Key': '203.0.113.7', 'CF-Connecting-IP': '::1' },
  })
  expect(forged).not.toEqual(await createIdentity({ by: 'header:x-key', headers: IP }))
})
