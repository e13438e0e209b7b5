import { expect, test } from 'vitest'
import { createAddressReader, type TrustProxy } from '../../src/http/request/identity/address-reader.ts'

const PEER = '192.0.2.9'

function read(trustProxy: TrustProxy<[]>, forwarded: string | null, peer: string | null = PEER): string | null {
  const readAddress = createAddressReader(
    trustProxy,
    () => peer,
    () => forwarded,
  )
  return readAddress()
}

test.each<[string | null, number, string]>([
  ['192.0.2.1, 192.0.2.2,192.0.2.3', 1, '192.0.2.3'],
  ['192.0.2.1, 192.0.2.2,192.0.2.3', 2, '192.0.2.2'],
  // There are fewer: nobody else can have named it.
  ['192.0.2.1, 192.0.2.2', 9, '192.0.2.1'],
  [' 192.0.2.1 ,, ', 1, '192.0.2.1'],
  ['192.0.2.1:443', 1, '192.0.2.1'],
  ['[2001:db8::1]:443', 1, '2001:db8::1'],
  ['[2001:db8::1]', 1, '2001:db8::1'],
  ['2001:db8::1', 1, '2001:db8::1'],
  ['x192.0.2.1:443', 1, 'x192.0.2.1:443'],
  ['192.0.2.1:443x', 1, '192.0.2.1:443x'],
  ['192.0.2.1:', 1, '192.0.2.1:'],
  ['x[2001:db8::1]', 1, 'x[2001:db8::1]'],
  ['[2001:db8::1]:443x', 1, '[2001:db8::1]:443x'],
  [' , ', 1, PEER],
  [null, 1, PEER],
])(
  'createAddressReader() reads of X-Forwarded-For: %j what the farthest of %i proxies saw',
  (forwarded, proxies, address) => {
    expect(read(proxies, forwarded)).toBe(address)
  },
)

test('createAddressReader() believes nothing without a proxy, and a function of the application', () => {
  expect([read(undefined, '192.0.2.1'), read(undefined, null, null), read(1, null, null)]).toEqual([PEER, null, null])
  expect([read(() => '192.0.2.7', '192.0.2.1'), read(() => undefined, '192.0.2.1')]).toEqual(['192.0.2.7', null])
})
