import fc from 'fast-check'
import { expect, test } from 'vitest'
import { normalizeAuthorization } from '../../src/identity/authorization.ts'

test.each(['Bearer X', 'bearer X', 'BEARER X', 'bearer  X', 'Bearer \t X', '  Bearer X  '])(
  'normalizeAuthorization() knows "%s" for "Bearer X"',
  (value) => {
    expect(normalizeAuthorization(value)).toBe('bearer X')
  },
)

test.each([
  ...[null, '', ' ', '\t'],
  // A scheme alone, two fields in one, a credential with something after it.
  ...['Bearer', 'basic ', 'Bearer X, Bearer Y', 'Bearer X Y', 'bearer X,', 'Bearer ,X', 'Basic eA== 1'],
])('normalizeAuthorization() finds no credential in %j', (value) => {
  expect(normalizeAuthorization(value)).toBeUndefined()
})

test.each([
  ['Bearer x', 'Bearer X'],
  ['Basic X', 'Bearer X'],
  ['Digest X Y', 'Digest XY'],
  ['Bearer X', 'BearerX'],
  ['key', 'KEY'],
])('normalizeAuthorization() keeps "%s" and "%s" apart', (one, other) => {
  expect(normalizeAuthorization(one)).not.toBe(normalizeAuthorization(other))
})

test('normalizeAuthorization() sees neither the case of the scheme nor the width of spaces, but all else', () => {
  const word = fc.stringMatching(/^[\w.~+/=,"-]{1,12}$/)
  const scheme = fc.stringMatching(/^[A-Za-z][\w-]{0,8}$/)
  const space = fc.stringMatching(/^[ \t]{1,3}$/)
  const credentials = fc.array(word, { minLength: 1, maxLength: 3 })
  fc.assert(
    fc.property(scheme, credentials, credentials, space, space, (scheme, one, other, a, b) => {
      const normal = normalizeAuthorization([scheme, ...one].join(' '))
      expect(normalizeAuthorization(`${a}${[scheme.toUpperCase(), ...one].join(a)}${b}`)).toBe(normal)
      const isSame = one.join(' ') === other.join(' ')
      expect(normalizeAuthorization([scheme, ...other].join(b)) === normal).toBe(isSame)
    }),
  )
})
