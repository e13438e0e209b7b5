import { expect, test } from 'vitest'
import { readAuthorization } from '../../src/http/request/identity/authorization.ts'

const X = { kind: 'value', value: 'X' }

test.each(['Bearer X', 'bearer X', 'BEARER X', 'bearer  X', 'Bearer \t X', '  Bearer X  ', 'Token X', 'Junk1 X', 'X'])(
  'readAuthorization() finds X in "%s"',
  (field) => {
    expect(readAuthorization(field)).toEqual(X)
  },
)

test.each([null, '', ' ', '\t', 'Bearer', 'basic '])('readAuthorization() finds nothing in %j', (field) => {
  expect(readAuthorization(field)).toEqual({ kind: 'none' })
})

test.each([
  // Of two fields in one, or several words, some APIs take the first, some the last.
  ...['Bearer X, Bearer Y', 'X,Y', 'Bearer X Y', 'bearer X,', 'Bearer ,X', 'Basic eA== 1', 'Digest a="b", c=d'],
  // Python splits at these.
  ...['Bearer X\x1cY', 'Bearer X\x85', 'Bearer X\xa0Y', 'Bearer \xff'],
  ...['Basic YTpi.', 'Basic =', 'Basic YTpi=YTpi', 'Basic YTpiY', 'Basic YTp_', 'Basic a:b'],
  ...['Bearer YTpi!', 'Bearer YT.pi', 'YTpi=junk', 'Bearer Y=TpiYQ=!=junk', `Bearer a${'=a'.repeat(10)}`],
  ...['Bearer eyJ.e30.!c2ln', 'Bearer eyJh.e30.c2lnc', 'Bearer eyJh=a.e30.c2ln'],
  // Rails ends a token at ";", and takes off quotes and `token=`.
  ...['Bearer X;1', 'Bearer ;X', 'Token token="X";n=1', 'Bearer "X', 'Bearer token=token=X', 'Bearer "a\\b"'],
  'Bearer =X',
  // Programs that look for "Bearer", or cut it out, find it anywhere.
  ...['BearerX', 'bearerX', 'xBearerX', 'secBearer ret', 'Junk xBearerX'],
])('readAuthorization() finds %j spoilt', (field) => {
  expect(readAuthorization(field)).toEqual({ kind: 'ambiguous' })
})

test.each([
  ['Bearer x', 'Bearer X'],
  ['key', 'KEY'],
  ['Bearer a-b', 'Bearer ab'],
  ['Bearer user10', 'Bearer user11'],
  ['Token token="abc"', 'Token token="abd"'],
  ['Bearer my-bearer-x', 'Bearer my-bearer-y'],
  ['Basic YTpi', 'Basic YTpj'],
  ['Bearer eyJh.e30.c2ln', 'Bearer eyJh.e30.c2lo'],
  ['Bearer eyJh.eyJhIjoxfQ.c2ln', 'Bearer eyJh.eyJhIjoyfQ.c2ln'],
])('readAuthorization() keeps "%s" and "%s" apart', (one, other) => {
  const readings = [one, other].map(readAuthorization)
  expect(readings.map(({ kind }) => kind)).toEqual(['value', 'value'])
  expect(readings[0]).not.toEqual(readings[1])
})

const JWE = btoa('{"enc":"A"}').replaceAll('=', '')
const SIGNATURE = 'A'.repeat(43)

test.each([
  [
    'Basic YTpiYw==',
    ['basic YTpiYw', 'Basic YTpiYw=', 'Basic YTpiYw====', 'Basic YTpiYx==', 'Bearer YTpiYw', 'YTpiYx'],
  ],
  ['Bearer X', ['Token token="X"', 'Bearer "X"', 'token=X', 'Bearer: X']],
  ['Bearer eyJh.e30.c2ln', ['Bearer eyJh.e30.c2ln=', 'JWT eyJh.e30.c2ln==', 'eyJh=.e30=.c2ln']],
  // Spare bits, and another half of an ECDSA signature.
  [`Bearer eyJh.e30.${SIGNATURE}`, [`Bearer eyJh.e30.${SIGNATURE.slice(1)}B`, `Bearer eyJh.e30.${SIGNATURE}ZZZZZ`]],
  [`Bearer ${JWE}.YQ.YQ.YQ.YQ`, [`Bearer ${JWE}.YR.YS.YT.YU`, `Bearer ${JWE}.YQ==.YQ=.YQ==.Yf`]],
])('readAuthorization() knows "%s" by other spellings', (field, spellings) => {
  const reading = readAuthorization(field)
  expect(reading.kind).toBe('value')
  for (const spelling of spellings) expect(readAuthorization(spelling), spelling).toEqual(reading)
})

test('readAuthorization() reads as much as servers take in a field, and finds more spoilt: it has no spelling to count by', () => {
  const field = (characters: number) => `Bearer ${'x'.repeat(characters - 7)}`
  expect(readAuthorization(field(8_190))).toEqual({ kind: 'value', value: 'x'.repeat(8_183) })
  expect(readAuthorization(field(8_191))).toEqual({ kind: 'ambiguous' })
})

test.each([
  // A text with a colon in base64 is a name and a password, in whichever alphabet; its spare bits do not count.
  ['Bearer YTpiYx', 'YTpiYw'],
  ['Bearer YWI_OmNk', 'YWI/OmNk'],
  ['Bearer Pz86Pz8_', 'ambiguous'],
  ['Bearer YW9iYx', 'YW9iYx'],
  ['Bearer Pz8-Pz8_', 'Pz8-Pz8_'],
  ['Bearer a=b', 'a=b'],
  [`Bearer a=${'b'.repeat(1_998)}`, `a=${'b'.repeat(1_998)}`],
  [`Bearer ${'b'.repeat(2_001)}`, 'b'.repeat(2_001)],
  [`Bearer a${'=a'.repeat(9)}`, `a${'=a'.repeat(9)}`],
  // A token is one only if it begins so.
  ['Bearer xeyJ.e30.c2lnc', 'xeyJ.e30.c2lnc'],
  ['Bearer eyJh.e30', 'eyJh.e30'],
  ['Bearer ey.e30.', 'ew.e30.'],
  ['Bearer .eJx.e30.c2ln', 'eJw.e30.c2ln'],
  ['Bearer eyJh.e30.-_-_', 'eyJh.e30.+/+/'],
  ['Bearer ewph.e30.c2ln', 'ewph.e30.c2ln'],
  // Only five parts are encrypted, by a header that says so; all of them count.
  [`Bearer ${JWE}.AAAA.AAAA.AAAA.AAAA`, `${JWE}.AAAA.AAAA.AAAA.AAAA`],
  [`Bearer ${JWE}.AAAA.AAAA.AAAA`, 'ambiguous'],
  [`Bearer ${JWE}.AAAA.AAAA.AAAA.AAAA.AAAA`, 'ambiguous'],
  ['Bearer eyJh.e30.AAAA.AAAA.AAAA', 'ambiguous'],
  ['Bearer eyJh+abc.e30.c2ln', 'ambiguous'],
  // Another scheme than Basic is another, and must be a word.
  ['Xbasic a:b', 'a:b'],
  ['Basicx a:b', 'a:b'],
  ['xbasic', 'xbasic'],
  ['xbearer', 'xbearer'],
  ['x"y abc', 'ambiguous'],
  ['"xy abc', 'ambiguous'],
  ['xy" abc', 'ambiguous'],
  [`Bearer a=${'b'.repeat(1_999)}`, 'ambiguous'],
  [`Bearer a${'=a'.repeat(10)}`, 'ambiguous'],
])('readAuthorization() reads %s as %s', (field, expected) => {
  const reading = readAuthorization(field)
  expect(reading.kind === 'value' ? reading.value : reading.kind).toBe(expected)
})
