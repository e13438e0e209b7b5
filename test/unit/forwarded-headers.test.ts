import { expect, test } from 'vitest'
import { isConnectionStray, removeHopByHop } from '../../src/http/response/forwarded-headers.ts'

function left(sent: Readonly<Record<string, string>>): readonly string[] {
  const headers = new Headers(sent)
  removeHopByHop(headers)
  return namesIn(headers)
}

/** But for those of which the runtime sends its own: test/e2e/proxy looks at what is sent. */
function namesIn(headers: Headers): readonly string[] {
  return [...headers.keys()].filter((name) => name !== 'connection').sort()
}

test.each(['Proxy-Authenticate', 'Proxy-Connection'])('removeHopByHop() removes %s', (name) => {
  expect(left({ [name.toLowerCase()]: 'x', Accept: '*/*' })).toEqual(['accept'])
})

test.each([
  ['authorization', true],
  ['close, AUTHORIZATION', true],
  ['x-key ,close', true],
  ['cf-connecting-ip', true],
  ['close, te, upgrade, http2-settings, proxy-connection', false],
  // Nobody is hidden by what is not there.
  ['close, x-other, via', false],
  ['not a name, "authorization"', false],
  ['', false],
])('isConnectionStray() of "%s" is %s', (connection, expected) => {
  const sent = { Authorization: 'Bearer X', 'X-Key': 'K', 'CF-Connecting-IP': '203.0.113.7', TE: 'trailers' }
  expect(isConnectionStray(new Headers({ ...sent, Connection: connection }))).toBe(expected)
  expect(isConnectionStray(new Headers(sent))).toBe(false)
})

test('isConnectionStray() does not read a Connection that is longer than any has to be', () => {
  expect(isConnectionStray(new Headers({ Connection: 'close,'.repeat(80) }))).toBe(false)
  expect(isConnectionStray(new Headers({ Connection: 'close,'.repeat(90) }))).toBe(true)
})
