import { expect, test } from 'vitest'
import { readCookie } from '../../src/http/request/identity/cookie.ts'

function reading(field: string | null, name = 'sid'): string {
  const found = readCookie(field, name)
  return found.kind === 'value' ? `=${found.value}` : found.kind
}

const JWT = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlLXNpZ25hdHVyZS1zaWduYXR1cmUtc2lnbmF0dXJlLQ'

test.each([
  ['sid=X', '=X'],
  ['a=1; sid=X; b=2', '=X'],
  ['a=1;sid=X;b=2', '=X'],
  ['  sid=X  ', '=X'],
  ['sid=X;', '=X'],
  ['sid=X=Y==', '=X=Y=='],
  ['sid=s%3AX.y', '=s:X.y'],
  ['sid="X"', '=X'],
  ['sid=%58', '=X'],
  ['a=b=sid; sid=X', '=X'],
  ['a=hello world, again; sid=X', '=X'],
  ['consent={"a":1}; sid=X', '=X'],
  ['sidecar=1; sid=X; insid=2', '=X'],
  ['a&b=c d&e; sid=X', '=X'],
])('readCookie() reads %j as %j', (field, expected) => {
  expect(reading(field)).toBe(expected)
})

test.each([null, '', ';', 'a=1', 'sidecar=X', 'sid=', 'sid=""', 'sid=%20', 'a="1; b=2"'])(
  'readCookie() finds nothing in %j',
  (field) => {
    expect(reading(field)).toBe('none')
  },
)

test.each([
  // Twice: some take the first, some the last.
  ...['sid=X; sid=Y', 'sid=X; sid=X', 'sid=X, sid=Y', 'sid=X; a=1, sid=Y', 'a=1, sid=X', 'sid=X; sid', 'sid; sid=X'],
  // In quotes or after a space, which is elsewhere to some.
  ...['a="x; sid=Y"', 'a="1; sid=Y; b=2"; sid=X', 'a=1 sid=Y; sid=X', 'a="\\"; sid=Y"; sid=X', 'sid=X Y', 'sid=X\tY'],
  // Under a name that some API may take for it.
  ...['SID=X', 'Sid=X; sid=Y', 's%69d=X', 'sid[]=X', 'sid[a]=X; sid=Y', '=sid=X', '==sid=X', '$sid=X', 's.i.d=X'],
  ...['sid =X', 'sid= X', 'sid = X', '"sid"=X', 'sid\t=X', 's id=X', 'a=1; s.id=X', 's[id=X', 'sid=j:{}', 'sid=j:1'],
  // Values that are cut off, or read in different ways.
  ...['sid="X', 'sid=X"', 'sid="X"Y', 'sid="X\\"Y"', 'sid="\\130"', 'sid=X,Y', 'sid=X\\', 'sid=é', 'sid=%', 'sid=%zz'],
  ...['sid=%ff', 'sid=X%00', 'sid=X%0aY', `sid=${'X'.repeat(8_190)}`, 'a=1; '.repeat(1_001)],
])('readCookie() takes %j for no identity', (field) => {
  expect(reading(field)).toBe('ambiguous')
})

test.each([
  ['X', '"X"', '%58', '"%58"', 'j:%22X%22', 'j:%22%5cu0058%22%20'],
  ['.eJx.aSJm.c2ln', '.eJx.aSJm.c2ln=', '%2EeJx.aSJm.c2ln'],
  ['a+b', 'a%20b', 'a%2Bb'],
  [JWT, `"${JWT}"`, JWT.replace('J', '%4A'), `${JWT}=`, JWT.replace(/Q$/, 'R'), `${JWT.slice(0, -4)}AAAA`],
])('readCookie() takes all spellings of a value for one: %j', (...spellings) => {
  expect(new Set(spellings.map((value) => reading(`sid=${value}`))).size).toBe(1)
  expect(reading(`sid=${spellings[0]}`)).toMatch(/^=/)
})

test('readCookie() keeps the case of values, and of names', () => {
  expect(reading('sid=x')).not.toBe(reading('sid=X'))
  expect(reading('PHPSESSID=x', 'PHPSESSID')).toBe('=x')
  expect(reading('__Host-sid=x', '__Host-sid')).toBe('=x')
  expect(reading('phpsessid=x', 'PHPSESSID')).toBe('ambiguous')
})
