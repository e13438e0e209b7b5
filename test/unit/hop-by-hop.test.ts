import { expect, test } from 'vitest'
import { isConnectionStray, removeHopByHop } from '../../src/gateway/hop-by-hop.ts'

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
  ['X-One', ['x-three', 'x-two']],
  ['x-one,X-TWO', ['x-three']],
  [' keep-alive ,, X-One ,\tX-Two ', ['x-three']],
  ['close', ['x-one', 'x-three', 'x-two']],
  ['X-One, not a name, X-Two', ['x-three']],
  ['"X-One"; X-Two', ['x-one', 'x-three', 'x-two']],
  ['', ['x-one', 'x-three', 'x-two']],
])('removeHopByHop() removes what Connection names: "%s"', (connection, expected) => {
  expect(left({ Connection: connection, 'X-One': '1', 'X-Two': '2', 'X-Three': '3' })).toEqual(expected)
})

test('removeHopByHop() removes what any of several Connection fields names', () => {
  const headers = new Headers([
    ['Connection', 'X-One'],
    ['Connection', 'X-Two'],
    ['X-One', '1'],
    ['X-Two', '2'],
  ])
  removeHopByHop(headers)
  expect(namesIn(headers)).toEqual([])
})

test('removeHopByHop() keeps everything that is for the other end', () => {
  const sent = {
    authorization: 'Bearer X',
    cookie: 'a=1',
    'content-encoding': 'gzip',
    'content-length': '5',
    via: '1.1 x',
    'www-authenticate': 'Basic',
  }
  expect(left(sent)).toEqual(Object.keys(sent).sort())
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
