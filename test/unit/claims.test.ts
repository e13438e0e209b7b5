import { expect, test } from 'vitest'
import { type IdentitySource, parseBy, parseClaimSource } from '../../src/core/model/identity-source.ts'
import { findClaim } from '../../src/http/request/identity/claims.ts'
import { readIdentity } from '../../src/http/request/identity/identify.ts'

test.each<[string, readonly string[]]>([
  ['sub', ['sub']],
  ['cognito:username', ['cognito:username']],
  ['https://example.com/plan', ['https://example.com/plan']],
  ['/sub', ['sub']],
  ['/account/plan', ['account', 'plan']],
  ['/user.id', ['user.id']],
  ['/a~1b/~0c', ['a/b', '~c']],
])('parseClaimSource() takes %j', (name, path) => {
  expect(parseClaimSource(name)?.path).toEqual(path)
})

test.each(['', 'user.id', 'account/plan', 'ftp://x', '/a~2', 'a b', '$.sub', 'sub[0]'])(
  'parseClaimSource() refuses %j, which could be a name or a path',
  (name) => {
    expect(parseClaimSource(name)).toBeUndefined()
  },
)

test('both ways to write the name of a claim are one source', () => {
  expect(parseBy('claim:/sub')).toEqual(parseBy('claim:sub'))
  expect(parseBy('claim:sub+ip')).toEqual([{ kind: 'claim', name: 'sub', path: ['sub'] }, { kind: 'ip' }])
  expect(parseBy('claim:/user.id')).not.toEqual(parseBy('claim:/user/id'))
})

const CLAIMS = {
  text: 'alice',
  number: 42,
  zero: 0,
  fraction: 1.5,
  no: false,
  nested: { id: 7, list: ['a', { b: 'c' }] },
  'user.id': 'dotted',
  empty: '',
  nothing: null,
  large: 2 ** 53,
  infinite: Number.POSITIVE_INFINITY,
}

test.each<[string, string | undefined]>([
  ['text', '"alice"'],
  ['number', '42'],
  ['zero', '0'],
  ['fraction', '1.5'],
  ['no', 'false'],
  ['/nested/id', '7'],
  ['/nested/list/0', '"a"'],
  ['/nested/list/1/b', '"c"'],
  ['/user.id', '"dotted"'],
  ['empty', undefined],
  ['nothing', undefined],
  ['large', undefined],
  ['infinite', undefined],
  ['nested', undefined],
  ['/nested/list', undefined],
  ['/nested/list/length', undefined],
  ['/text/length', undefined],
  ['missing', undefined],
  ['/missing/id', undefined],
  ['constructor', undefined],
  ['__proto__', undefined],
  ['/nested/toString', undefined],
])('findClaim() reads %s as %s', (name, value) => {
  const reading = findClaim(CLAIMS, parseClaimSource(name)?.path ?? [])
  expect(reading).toEqual(value === undefined ? { kind: 'none' } : { kind: 'value', value })
})

test('findClaim() gives values of different types different identities', () => {
  const values = ['1', 1, 'true', true, '"1"', 'false', false, '0', 0, ' 1', '1 ']
  const read = values.map((value) => findClaim({ value }, ['value']))
  expect(new Set(read.map((reading) => JSON.stringify(reading))).size).toBe(values.length)
})

const subject = (readClaim?: () => { readonly kind: 'none' | 'ambiguous' }) => ({
  request: new Request('https://g.example/', { headers: { 'CF-Connecting-IP': '203.0.113.7' } }),
  route: 'GET /',
  ipv6Prefix: 64,
  readClaim,
  context: { waitUntil() {} },
})
const BY_CLAIM = parseBy('claim:sub') as readonly IdentitySource[]

test('identify() lets nobody leave a policy with a token that cannot be verified', async () => {
  const [none, spoilt] = [() => ({ kind: 'none' }) as const, () => ({ kind: 'ambiguous' }) as const]
  const skip = { kind: 'skip' } as const
  expect(await readIdentity(BY_CLAIM, subject(none), skip)).toEqual(skip)
  expect(await readIdentity(BY_CLAIM, subject(spoilt), skip)).toEqual(['ip', '203.0.113.7'])
  // Where none can be verified, each is one of these.
  expect(await readIdentity(BY_CLAIM, subject(), skip)).toEqual(['ip', '203.0.113.7'])
})
